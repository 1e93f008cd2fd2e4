import "virtual:katex.css";
import "./styles/tokens.css";
import "./styles/base.css";
import { mount } from "svelte";
import App from "./App.svelte";

// chapters are drawn one by one: the address, not a height, says where the reader was
history.scrollRestoration = "manual";
const target = document.getElementById("app");
if (target === null) throw new Error("index.html has no element with id app");
mount(App, { target });

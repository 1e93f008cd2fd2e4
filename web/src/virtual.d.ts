declare module "virtual:katex.css";
declare module "virtual:tex-style/*";

/**
 * Special functions of statistics: log Γ, and the regularised incomplete gamma and beta functions, by
 * series and continued fractions (Abramowitz and Stegun, 6.5 and 26.5).
 */

const TINY = 1e-300;
const EPSILON = 1e-15;
const MOST = 100_000;

/** log Γ(x), x > 0: Stirling's series from 10 on, recurrence below. */
export function logGamma(x: number): number {
  let shift = 0;
  while (x < 10) {
    shift += Math.log(x);
    x += 1;
  }
  const s = 1 / (x * x);
  const series = (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188))))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - shift;
}

/** Q(a, x) = Γ(a, x) / Γ(a): the upper tail. */
export function gammaQ(a: number, x: number): number {
  if (x <= 0) return 1;
  if (x === Infinity) return 0;
  const front = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    let term = 1 / a;
    let sum = term;
    for (let n = 1; n < MOST && term > sum * EPSILON; n++) {
      term *= x / (a + n);
      sum += term;
    }
    return 1 - front * sum;
  }
  return (
    front /
    fraction(
      x + 1 - a,
      (n) => n * (a - n),
      (n) => x + 1 - a + 2 * n,
    )
  );
}

/** I_x(a, b): the regularised incomplete beta function. */
export function betaI(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaI(1 - x, b, a);
  const log = logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x);
  const step = (n: number) => {
    const m = Math.floor(n / 2);
    const [even, below] = [n % 2 === 0, a + 2 * m];
    return even ? (m * (b - m) * x) / ((below - 1) * below) : (-(a + m) * (a + b + m) * x) / (below * (below + 1));
  };
  return Math.exp(log) / (a * fraction(1, step, () => 1));
}

/** b₀ + a₁/(b₁ + a₂/(b₂ + …)), by Lentz's method. */
function fraction(b0: number, a: (n: number) => number, b: (n: number) => number): number {
  let f = b0 === 0 ? TINY : b0;
  let c = f;
  let d = 0;
  for (let n = 1; n < MOST; n++) {
    d = b(n) + a(n) * d;
    d = 1 / (d === 0 ? TINY : d);
    c = b(n) + a(n) / c;
    c = c === 0 ? TINY : c;
    f *= c * d;
    if (Math.abs(c * d - 1) < EPSILON) break;
  }
  return f;
}

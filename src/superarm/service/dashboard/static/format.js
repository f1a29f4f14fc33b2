// Numbers, shares, durations and times as people read them.

export const NONE = "–";

/** A number with some significant digits. */
export function number(x, digits = 3) {
  if (x === null || x === undefined || !Number.isFinite(x)) {
    return NONE;
  }
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) {
    return minus(x.toExponential(digits - 1));
  }
  const before = size === 0 ? 0 : Math.floor(Math.log10(size)); // places before the point, less one
  const decimals = Math.max(0, digits - 1 - before);
  return minus(
    x.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }),
  );
}

function minus(text) {
  return text.replaceAll("-", "−");
}

/** A number as it is, up to four digits. */
export function plain(x) {
  return x === null || x === undefined ? NONE : minus(String(Number(x.toPrecision(4))));
}

/** A count. */
export function count(n) {
  return n === null || n === undefined ? NONE : Math.round(n).toLocaleString("en");
}

/** How many there are of something, as `3 events`. */
export function many(n, one) {
  return `${count(n)} ${one}${n === 1 ? "" : "s"}`;
}

/** A rate: counts where they are large. */
export function rate(x) {
  return x >= 100 ? count(x) : number(x, 2);
}

export function percent(share, decimals = 0) {
  return share === null || share === undefined ? NONE : `${(100 * share).toFixed(decimals)} %`;
}

/** An interval of 95 %. */
export function between(low, high, digits = 3) {
  if (low === null || low === undefined || high === null || high === undefined) {
    return NONE;
  }
  return `${number(low, digits)} to ${number(high, digits)}`;
}

/** A number that may be more or less, with its sign. */
export function signed(x, digits = 3) {
  if (x === null || x === undefined) {
    return NONE;
  }
  return x > 0 ? `+${number(x, digits)}` : number(x, digits);
}

/** A text that begins with a capital, and ends. */
export function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(whole) ? whole : `${whole}.`;
}

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Seconds in the unit that suits them. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) {
    return NONE;
  }
  if (seconds < 1) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  const [size, unit] = UNITS.find(([one]) => seconds >= one);
  return `${number(seconds / size, 2)} ${unit}`;
}

/** Bytes in the unit that suits them. */
export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i += 1;
  }
  return `${i === 0 ? n : number(n, 3)} ${units[i]}`;
}

export const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });
export const CLOCK = new Intl.DateTimeFormat("en", {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
export const EXACT = new Intl.DateTimeFormat("en", { timeStyle: "medium", hourCycle: "h23" });

/** A moment: the time of today, else with its day. */
export function moment(given, exact = false) {
  if (given === null || given === undefined) {
    return NONE;
  }
  const date = typeof given === "number" ? new Date(1000 * given) : new Date(given);
  const clock = (exact ? EXACT : CLOCK).format(date);
  return date.toDateString() === new Date().toDateString()
    ? clock
    : `${DAY.format(date)}, ${clock}`;
}

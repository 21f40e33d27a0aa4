// Times in the reporting zone, and figures as live pages write them.
const STEPS_MIN = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440];
const DAY_MIN = 1440;
const NONE = "–";
const figures = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const money = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const UNITS = ["B", "kB", "MB", "GB", "TB"];

export class Zone {
  constructor(name) {
    this.name = name;
    this.format = new Intl.DateTimeFormat("en-GB", {
      timeZone: name, hourCycle: "h23", day: "numeric", month: "short",
      hour: "2-digit", minute: "2-digit", second: "2-digit",
    });
  }

  parts(ms) {
    return Object.fromEntries(this.format.formatToParts(ms).map((part) => [part.type, part.value]));
  }

  clock(ms, hasSeconds = true) {
    const { hour, minute, second } = this.parts(ms);
    return hasSeconds ? `${hour}:${minute}:${second}` : `${hour}:${minute}`;
  }

  moment(ms) {
    const { day, month } = this.parts(ms);
    return `${day} ${month} ${this.clock(ms)}`;
  }

  // Where the clock of the zone passes a round time: also right where a day has 23 or 25 hours.
  ticks(at, bucketS, most) {
    const spanMin = (at.length * bucketS) / 60;
    const step = STEPS_MIN.find((one) => spanMin / one <= most) ?? DAY_MIN;
    const values = [];
    const labels = [];
    let before = null;
    for (const second of at) {
      const { day, month, hour, minute } = this.parts(second * 1000);
      const round = `${day} ${Math.floor((Number(hour) * 60 + Number(minute)) / step)}`;
      if (before !== null && round !== before) {
        values.push(second * 1000);
        labels.push(step >= DAY_MIN ? `${day} ${month}` : `${hour}:${minute}`);
      }
      before = round;
    }
    return { values, labels };
  }
}

function bytes(value) {
  let unit = 0;
  let left = value;
  while (left >= 1000 && unit < UNITS.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${figures.format(left)} ${UNITS[unit]}`;
}

export function written(value, measure) {
  if (value === null || value === undefined) return NONE;
  if (measure === "bytes") return bytes(value);
  if (measure === "dollars") return `$${money.format(value)}`;
  if (measure === "milliseconds") return `${figures.format(value)} ms`;
  if (measure === "per_cent") return `${figures.format(value)} %`;
  return figures.format(value);
}

export function bucketWords(bucketS) {
  if (bucketS < 60) return `${bucketS}-s buckets`;
  return bucketS < 3600 ? `${bucketS / 60}-min buckets` : `${bucketS / 3600}-h buckets`;
}

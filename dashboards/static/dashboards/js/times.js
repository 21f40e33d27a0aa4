// Times are printed in the reporting zone; pointing at one tells it in the reader's own zone too.
const format = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "long",
});

function explain(scope) {
  for (const time of scope.querySelectorAll("time[datetime]:not([title])")) {
    time.title = `${format.format(new Date(time.dateTime))} here`;
  }
}

explain(document);
document.addEventListener("htmx:load", (event) => explain(event.target));

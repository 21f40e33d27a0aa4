"""The console's pages: form -> service -> redirect, selector -> page.

Belongs here: views, forms, tables, navigation and how figures are written for people. Does not
belong here: rules, writes and queries; they are called from services and selectors, and so have the
API beside them. docs/console.md has a worked example.

The library, a small module each:

- `nouns`: what a kind of object is called and where its pages and REST calls are.
- `pages`: `Page`, base of all views; scope, breadcrumb, `may_write`, `require_write`, `found`.
- `lists`: `ListPage`, `NounTable`, `NameColumn`, `WhenColumn`. `filtering`: controls and chips.
- `details`: `DetailPage` with state, facts, tabs and the tab Activity (`activity`, `diffs`).
- `forms.base`: `NounForm`. `editing`: `EditPage`; `creating`: `CreatePage`; `deleting`:
  `DeletePage`; all on `form_pages`, with `reviews` for what a review shows and `carrying` for what
  a page carries in hidden fields.
- `propagation`: "applied on n of N gateways", asked after each save.
- `api_calls`: the same by REST, as a line for a shell.

To add a noun:

1. A `Noun` in `nouns`. Its addresses have fixed names: `<key>`, `<slug>`, `<slug>-create`,
   `<slug>-edit`, `<slug>-delete`.
2. tables/<noun>.py: a `NounTable`, first column a `NameColumn`; `attrs={"td": {"data-l": …}}` for
   cells that keep their label on phones.
3. forms/<noun>.py: a `NounForm` whose fields are named as the service's. `risky` names the fields
   whose change needs a reason, `fixed` those set at creation only, `secrets` those never echoed.
4. views/<noun>.py: a `ListPage` (noun, selector, filters from selectors.filters, table, empty), a
   `DetailPage` (`facts_of`, `state_of`, `extra`), and `CreatePage`, `EditPage`, `DeletePage` whose
   `carry_out` calls the service. Override `impact` for what the review says of reach and checks.
5. A line each in `urls`, an entry in `navigation`.
6. Templates only where the shared ones (templates/console/{list,detail,form,review}.html) don't do:
   extend them and fill `overview`, `tab`, `fields`, `left`, `right`, `above` or `below`.

An action that is no form (stop, restart, disable) is an `ActPage` (`acting`): one fixed change with
a review, and a reason where it is risky.
"""

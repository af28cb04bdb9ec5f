// Package inspector is a web page for operators. It shows the records of an engine: how
// a request ended, and which response its retry gets. An operator with the right can settle
// an abandoned key by hand, and forget a record.
//
//	page, err := inspector.New(engine, authorize)
//	mux.Handle("/ops/idempotency/", http.StripPrefix("/ops/idempotency", page))
//
// The page is a http.Handler for any router. It uses relative links, so it works behind any
// prefix that http.StripPrefix removes. It needs no script, no session and no other host.
//
// # Rights and privacy
//
// authorize names the operator of each request, and the operator's rights: Read, Reveal,
// Settle. They are for all records of the store, also those of other services that share it.
// Each address checks its own right, so the protection does not depend on hidden buttons. A request
// that changes something, or carries a key, is a POST; http.CrossOriginProtection refuses a
// POST from another site. Responses are not cached, and the Content-Security-Policy allows
// the page's own style sheet only. A proxy in front of the page passes the header Host on,
// by which the protection knows the page's own forms.
//
// The page never shows an idempotency key or a scope, because stores keep hashes only. It
// shows the values of listed response headers (Headers). A stored body is shown after a
// click, with the right Reveal, and masked: of a JSON body the values of members whose names
// have one of the words that docs/cli.md lists, such as card, password and token, and values
// without a name, such as those of a list at the root; and the bodies of other types as a
// whole unless Redact masks them. The events settled_by_hand, forgotten and revealed name
// the operator.
//
// # JSON
//
// Every screen is also JSON, for a request with Accept: application/json and without
// text/html. Forms are application/x-www-form-urlencoded in both cases. Times are RFC 3339,
// and absent where they are not known. All addresses are below the page's prefix.
//
//	GET  /                       Records. Query: state (abandoned, in_progress, completed, failed,
//	                             unreplayable, released, expired, open, all; default open:
//	                             abandoned or in flight), route, older (10m), cursor, limit (default 100, at most
//	                             1000), look (the number of records to look at, default 20000),
//	                             within (the time after which to stop looking, default 2s, at
//	                             most 30s).
//	POST /find                   Record. Form: key, scope, target ("POST /payments"); or key alone,
//	                             for a record's id. An empty scope means core.SharedScope.
//	GET  /records/{id}           Record; 404 with found=false when there is none.
//	POST /records/{id}/reveal    Record with response.body. Right: Reveal.
//	POST /records/{id}/settle    Record after the change. Form: found (happened, did-not-happen),
//	                             attempt, why, confirm (the first 8 digits). Right: Settle. 400: no
//	                             attempt. 422: another field is missing. 409: changed meanwhile, or the
//	                             lease runs.
//	POST /records/{id}/forget    Record after the change. Form: attempt, why, confirm. Right and statuses are the same.
//	POST /explain                Explanation. Form: key, scope, target, route, type, headers, body.
//	GET  /running                Process
//	GET  /routes                 Routes
//	GET  /doctor                 Doctor
//	GET  /events                 Tail: the events of this process. Query: after (next of an earlier
//	                             reply; without it, the last 10). JSON only.
//
// The types of these names document the members. An error is a Fault, with the status 400,
// 401, 403, 404, 502 (the record cannot be read) or 503 (the store fails).
package inspector

package main

import (
	"fmt"
	"net/http"

	"github.com/oncekey/oncekey/core/problem"
)

// writeProblem is a problem.Writer for senders of webhooks. A sender reads only the
// status: a 2xx ends the redeliveries, any other status asks for another delivery. An
// event that was handled is therefore a 200, also when its response is gone. Otherwise the
// sender repeats the event for days, and may then disable the endpoint for all events.
//
// All other problems keep their status. After outcome_unknown and key_reused a person must
// look, and the provider's list of failed deliveries is the place to find them.
func writeProblem(w http.ResponseWriter, r *http.Request, p problem.Problem) {
	switch p.Code {
	case problem.KeyExpired, problem.NotReplayable, problem.HandlerFailed:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "handled before: %s\n", p.Code)
	default:
		problem.Write(w, r, p)
	}
}

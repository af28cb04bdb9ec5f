package verify

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// judge judges a rule by one probe that was made.
type judge func(*Seen, *Observation) verdict

// afterFirst lets a judge see only probes of two requests and more whose first one has succeeded, and whose others
// got a response.
func afterFirst(of judge) judge {
	return responded(func(s *Seen, o *Observation) verdict {
		if first := o.Exchanges[0]; !first.cut && !first.succeeded() {
			return unknown("the first request gets %s", s.excerpt(first))
		}
		return of(s, o)
	})
}

// responded lets a judge see only probes of two requests and more that got a response, of which one is 2xx.
func responded(of judge) judge {
	return func(s *Seen, o *Observation) verdict {
		if len(o.Exchanges) < 2 {
			return unknown("not all requests were sent")
		}
		isSuccess := false
		for i, one := range o.Exchanges {
			if one.Status == 0 && !one.cut {
				return unknown("request %d: %s", i+1, s.text([]byte(one.failed)))
			}
			isSuccess = isSuccess || one.succeeded()
			if alone := s.alone(one.sent); alone != nil && !alone.succeeded() {
				return unknown("under a new key too this payload gets %s", s.excerpt(alone))
			}
		}
		if !isSuccess {
			return unknown("no request gets 2xx: %s", s.excerpt(o.Exchanges[0]))
		}
		return of(s, o)
	}
}

// ran is the evidence that an operation ran more than once under one key.
func ran(n int64, o *Observation) verdict {
	if o.Counted {
		return broken("%d effects", n)
	}
	return broken("different responses, none marked as a replay")
}

// once: the operation runs once under a key.
func once(s *Seen, o *Observation) verdict {
	switch n, known := s.runs(o); {
	case !known:
		return unknown("equal responses without a mark: a count of effects would tell")
	case n > 1:
		return ran(n, o)
	case n < 1:
		return unknown("%d effects were counted", n)
	case o.Counted:
		return kept("1 effect")
	default:
		return kept("one response, and replays of it")
	}
}

// replays: the second response has the status and the body of the first.
func replays(s *Seen, o *Observation) verdict {
	first, second := o.Exchanges[0], o.Exchanges[1]
	switch {
	case first.Status == second.Status && bytes.Equal(first.Body, second.Body):
		return kept("%d, then %d with an equal body", first.Status, second.Status)
	case second.Status == http.StatusConflict:
		return unknown("409 to all retries, as if the first request was in progress: %s", s.excerpt(second))
	case isUnrelated(second):
		return unknown("%d, then %s", first.Status, s.excerpt(second))
	case first.Status == second.Status:
		return broken("another body: %s; first: %s", s.excerpt(second), s.excerpt(first))
	default:
		return broken("%d, then %s", first.Status, s.excerpt(second))
	}
}

// marks: a replay has a header field that marks it.
func marks(s *Seen, o *Observation) verdict {
	const name = "Idempotent-Replayed"
	switch first, second := o.Exchanges[0], o.Exchanges[1]; {
	case first.isMarked():
		return broken("the first response is marked as a replay too")
	case second.Header.Get(name) == "true":
		return kept("%s: true", name)
	case second.Status != first.Status || !bytes.Equal(first.Body, second.Body):
		return unknown("no replay was seen")
	case second.Header.Get(name) != "":
		return broken("%s: %s", name, s.text([]byte(second.Header.Get(name))))
	default:
		return broken("no %s in the second response", name)
	}
}

// echoes: each response has the request's key.
func echoes(s *Seen, o *Observation) verdict {
	for _, one := range o.Exchanges {
		if echo := strings.Trim(one.Header.Get("Idempotency-Key"), `"`); echo != one.key {
			return broken("Idempotency-Key: %q in a response of %d", s.text([]byte(echo)), one.Status)
		}
	}
	return kept("the key in each response")
}

// isUnrelated reports a response that says nothing about keys: a rate limit, or a server that fails.
func isUnrelated(e *Exchange) bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
}

// isConflict reports that the server takes a request for another one than the first under its key.
func isConflict(e *Exchange) bool {
	return e.Status == http.StatusConflict || e.Status == http.StatusUnprocessableEntity || stripeError(e) == "idempotency_error"
}

// countsAsEqual: another spelling of the body is a retry.
func countsAsEqual(s *Seen, o *Observation) verdict {
	second := o.Exchanges[1]
	switch n, known := s.runs(o); {
	case isConflict(second):
		return broken("another payload: %s", s.excerpt(second))
	case known && n > 1:
		return ran(n, o)
	default:
		return replays(s, o)
	}
}

// countsAsOther: another spelling of the body is another payload.
func countsAsOther(s *Seen, o *Observation) verdict {
	switch second := o.Exchanges[1]; {
	case second.succeeded():
		return broken("%s", s.excerpt(second))
	case isConflict(second):
		return kept("%s", s.excerpt(second))
	default:
		return unknown("no conflict of keys: %s", s.excerpt(second))
	}
}

// refusesOther: another payload under a key is refused with a status of 4xx, and does not run.
func refusesOther(s *Seen, o *Observation) verdict {
	first, second := o.Exchanges[0], o.Exchanges[1]
	n, known := s.runs(o)
	switch {
	case first.succeeded() && second.succeeded():
		return broken("both payloads get 2xx: %s", s.excerpt(second))
	case known && n > 1:
		return ran(n, o)
	case isUnrelated(first) || isUnrelated(second) || !first.succeeded() && !second.succeeded():
		return unknown("%d and %s", first.Status, s.excerpt(second))
	default: // requests that were sent at the same time have no order
		return kept("%d and %d", min(first.Status, second.Status), max(first.Status, second.Status))
	}
}

// refusesWith is refusesOther with a certain status.
func refusesWith(status int) judge {
	return func(s *Seen, o *Observation) verdict {
		found := refusesOther(s, o)
		if second := o.Exchanges[1]; found.result == Kept && second.Status != status {
			return broken("%s, and not %d", s.excerpt(second), status)
		}
		return found
	}
}

// stripeError returns the type of an error in Stripe's form.
func stripeError(e *Exchange) string {
	var body struct{ Error struct{ Type string } }
	_ = json.Unmarshal(e.Body, &body) // another form has no such type
	return body.Error.Type
}

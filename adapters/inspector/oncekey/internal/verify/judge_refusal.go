package verify

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// requiresKey: a request without a key gets 400. must tells whether a server may take it.
func requiresKey(must bool) judge {
	return func(s *Seen, o *Observation) verdict {
		switch only := o.Exchanges[0]; {
		case only.Status == 0:
			return unknown("%s", s.text([]byte(only.failed)))
		case only.Status == http.StatusBadRequest:
			return kept("%s", s.excerpt(only))
		case only.succeeded() && !must:
			return unknown("the server requires no key here: %s", s.excerpt(only))
		case isUnrelated(only):
			return unknown("%s", s.excerpt(only))
		default:
			return broken("%s, and not 400", s.excerpt(only))
		}
	}
}

// accepts: the only request of the probe succeeds.
func accepts(s *Seen, o *Observation) verdict { return judgeOnly(s, o, kept, broken) }

// refuses: the only request of the probe gets 4xx.
func refuses(s *Seen, o *Observation) verdict { return judgeOnly(s, o, broken, kept) }

// judgeOnly judges the only request of a probe by its success or its refusal.
func judgeOnly(s *Seen, o *Observation, success, refusal func(format string, arguments ...any) verdict) verdict {
	switch only := o.Exchanges[0]; {
	case only.succeeded():
		return success("%s", s.excerpt(only))
	case only.Status == 0 || isUnrelated(only):
		return unknown("%s", s.excerpt(only))
	case refusesPayload(s, only.Status):
		return unknown("under other new keys too this payload gets %s", s.excerpt(only))
	default:
		return refusal("%s", s.excerpt(only))
	}
}

// refusalsAmong returns the responses of 4xx to requests that were sent at the same time.
func refusalsAmong(o *Observation) (all []*Exchange) {
	for _, one := range o.Exchanges {
		if !one.succeeded() && !isUnrelated(one) {
			all = append(all, one)
		}
	}
	return all
}

const notMet = "no duplicate met a running request: the server waits, or the request is too quick"

// conflicts: a duplicate of a request in progress gets 409.
func conflicts(s *Seen, o *Observation) verdict {
	all := refusalsAmong(o)
	for _, one := range all {
		if one.Status != http.StatusConflict {
			return broken("%s, and not 409", s.excerpt(one))
		}
	}
	if len(all) == 0 {
		return unknown(notMet)
	}
	return kept("%s", s.excerpt(all[0]))
}

// namesPause: a 409 to a duplicate of a request in progress has Retry-After.
func namesPause(s *Seen, o *Observation) verdict {
	found := unknown(notMet)
	for _, one := range refusalsAmong(o) {
		switch pause := one.Header.Get("Retry-After"); {
		case one.Status != http.StatusConflict:
		case pause == "":
			return broken("409 without Retry-After")
		default:
			found = kept("Retry-After: %s", s.text([]byte(pause)))
		}
	}
	return found
}

// acpCodes are the codes of ACP's errors, by the probe that provokes them.
var acpCodes = map[Probe]string{NoKey: "idempotency_key_required", OtherAfter: "idempotency_conflict", Duplicates: "idempotency_in_flight"}

// hasCode: errors about keys have the body that ACP describes.
func hasCode(s *Seen, o *Observation) verdict {
	found := unknown("no error was seen")
	for _, one := range refusalsAmong(o) {
		var body struct{ Type, Code, Message string }
		if one.Status == 0 {
			continue
		}
		if json.Unmarshal(one.Body, &body) != nil || body.Type != "invalid_request" || body.Code != acpCodes[o.Probe] || body.Message == "" {
			return broken("no type invalid_request, code %s and message: %s", acpCodes[o.Probe], s.excerpt(one))
		}
		found = kept("code %s", body.Code)
	}
	return found
}

// survivesLoss: a retry gets the result of the request whose response was lost, and the operation has run once.
func survivesLoss(s *Seen, o *Observation) verdict {
	lost, last := o.Exchanges[0], o.Exchanges[1]
	n, known := s.runs(o)
	switch {
	case known && n > 1:
		return ran(n, o)
	case last.Status == http.StatusConflict:
		return unknown("409 to %d retries: %s", o.Requests-1, s.excerpt(last))
	case isUnrelated(last):
		return unknown("%s", s.excerpt(last))
	case !last.succeeded() || lost.succeeded() && lost.Status != last.Status:
		return broken("the retry gets %s", s.excerpt(last))
	case known && n == 1:
		return kept("the retry gets %d, %s", last.Status, countOr(o, "marked as a replay"))
	default:
		return unknown("the retry gets %d: a count of effects would tell whether it is a replay", last.Status)
	}
}

// countOr returns the count of effects, or other evidence.
func countOr(o *Observation, other string) string {
	if o.Counted {
		return "1 effect"
	}
	return other
}

// scopedToPath: a key at another URL is another key.
func scopedToPath(s *Seen, o *Observation) verdict {
	if problem := withoutControl(s, o); problem != "" {
		return unknown("%s", problem)
	}
	first, second := o.Exchanges[0], o.Exchanges[1]
	isEqual := bytes.Equal(first.Body, second.Body)
	switch {
	case isConflict(second), s.isReplay(second):
		return broken("the key of another URL gets %s", s.excerpt(second))
	case !second.succeeded():
		return unknown("%s", s.excerpt(second))
	case isEqual && s.isDistinctive():
		return broken("the response of the other URL: %s", s.excerpt(second))
	case isEqual && !s.marksReplays():
		return unknown("%d with an equal body: a run, or a replay", second.Status)
	default:
		return kept("%d and %d", first.Status, second.Status)
	}
}

// refusesOtherEndpoint: a key at another URL is an error.
func refusesOtherEndpoint(s *Seen, o *Observation) verdict {
	if problem := withoutControl(s, o); problem != "" {
		return unknown("%s", problem)
	}
	return isStripeConflict(s, o.Exchanges[1])
}

// withoutControl returns why the other URL shows nothing: it does not take the request under a new key.
func withoutControl(s *Seen, o *Observation) string {
	if len(o.Exchanges) < 3 || !o.Exchanges[2].succeeded() {
		return "the other URL does not take the request: " + s.excerpt(o.Exchanges[len(o.Exchanges)-1])
	}
	return ""
}

// isStripeConflict: Stripe refuses a key with other parameters by 400 and a type of error.
func isStripeConflict(s *Seen, e *Exchange) verdict {
	switch {
	case isUnrelated(e):
		return unknown("%s", s.excerpt(e))
	case e.Status == http.StatusBadRequest && stripeError(e) == "idempotency_error":
		return kept("400 idempotency_error")
	default:
		return broken("%s, and not 400 with the type idempotency_error", s.excerpt(e))
	}
}

// refusesParameters: other parameters under a key are an error, and do not run.
func refusesParameters(s *Seen, o *Observation) verdict {
	if found := refusesOther(s, o); found.result != Kept {
		return found
	}
	return isStripeConflict(s, o.Exchanges[1])
}

// ignoresKeyOnGet: a key changes nothing about GET.
func ignoresKeyOnGet(s *Seen, o *Observation) verdict {
	if len(o.Exchanges) < 3 {
		return unknown("not all requests were sent")
	}
	switch without, with := o.Exchanges[1], o.Exchanges[2]; {
	case s.isReplay(with):
		return broken("GET with a key gets a replay: %s", s.excerpt(with))
	case isUnrelated(without) || isUnrelated(with):
		return unknown("GET gets %d, with a key %d", without.Status, with.Status)
	case without.Status != with.Status:
		return broken("GET gets %d, with a key %s", without.Status, s.excerpt(with))
	default:
		return kept("GET gets %d, with a key %d", without.Status, with.Status)
	}
}

// forgetsInvalid: a request that fails validation leaves its key unused.
func forgetsInvalid(s *Seen, o *Observation) verdict {
	switch first, second := o.Exchanges[0], o.Exchanges[1]; {
	case first.succeeded():
		return unknown("the server takes a malformed body: %s", s.excerpt(first))
	case isUnrelated(first) || isUnrelated(second):
		return unknown("%d, then %s", first.Status, s.excerpt(second))
	case second.succeeded():
		return kept("%d, then %d", first.Status, second.Status)
	default:
		return broken("%d for a malformed body, then %s", first.Status, s.excerpt(second))
	}
}

// forgetsErrors: a response of 5xx is not kept, so that a retry runs.
func forgetsErrors(s *Seen, o *Observation) verdict {
	return fresh(s, o, kept, broken)
}

// keepsErrors: a response of 5xx is kept, and replayed.
func keepsErrors(s *Seen, o *Observation) verdict {
	return fresh(s, o, broken, kept)
}

// fresh judges whether the response after a 5xx is that of another run.
func fresh(s *Seen, o *Observation, isFresh, isReplay func(string, ...any) verdict) verdict {
	if len(o.Exchanges) < 2 || o.Exchanges[0].Status < http.StatusInternalServerError {
		return unknown("the failing body gets %s", s.excerpt(o.Exchanges[0]))
	}
	switch first, second := o.Exchanges[0], o.Exchanges[1]; {
	case second.Status == 0 || second.Status == http.StatusConflict:
		return unknown("%d, then %s", first.Status, s.excerpt(second))
	case s.isReplay(second):
		return isReplay("%d, then %d marked as a replay", first.Status, second.Status)
	case second.Status != first.Status || !bytes.Equal(second.Body, first.Body):
		return isFresh("%d, then %s", first.Status, s.excerpt(second))
	case s.marksReplays():
		return isFresh("%d, then %d without the mark of a replay", first.Status, second.Status)
	default:
		return unknown("%d twice with one body: a run, or a replay", first.Status)
	}
}

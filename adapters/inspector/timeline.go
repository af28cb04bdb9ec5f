package inspector

import (
	"fmt"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// Moment is one line of a record's timeline.
type Moment struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
	Note string    `json:"note,omitempty"`
	// Source is "record" or "this process".
	Source string `json:"source"`
	// Result is the event's, or empty for a line of the record.
	Result string `json:"result,omitempty"`
	// Count is the number of equal events, the last of them at Last.
	Count int       `json:"count"`
	Last  time.Time `json:"last,omitzero"`
	Trace string    `json:"trace,omitempty"`
	Tone  string    `json:"-"`
}

const (
	fromRecord  = "record"
	fromProcess = "this process"
)

// timeline returns the moments of the record and of the events of this process, in order.
func timeline(record *storage.Record, events []Happened) []Moment {
	all := ofRecord(record)
	for _, one := range events {
		if one.Result == event.LeaseExpired || record != nil && isInRecord(record, &one) {
			continue // the decision about the request tells it too
		}
		if last := len(all) - 1; last >= 0 && all[last].Result == string(one.Result) && all[last].Source == fromProcess && all[last].Note == noteOf(&one) {
			all[last].Count++
			all[last].Last = one.At
			continue
		}
		all = append(all, Moment{
			At: one.At, Text: textOf(&one), Note: noteOf(&one), Source: fromProcess, Result: string(one.Result),
			Count: 1, Last: one.At, Trace: one.trace, Tone: toneOfResult(one.Result),
		})
	}
	slices.SortStableFunc(all, func(a, b Moment) int { return a.At.Compare(b.At) })
	return all
}

// isInRecord reports whether the record itself tells the event, with the store's time.
func isInRecord(record *storage.Record, one *Happened) bool {
	if one.Attempt != record.Attempt {
		return false
	}
	return one.Result == event.Execute && !record.Created.IsZero() || endedRun(one.Result) && !record.Finished.IsZero()
}

// ofRecord returns the times that a record has.
func ofRecord(record *storage.Record) []Moment {
	all := []Moment{} // no null in JSON
	if record == nil {
		return all
	}
	add := func(at time.Time, tone, text, note string) {
		if !at.IsZero() {
			all = append(all, Moment{At: at, Tone: tone, Text: text, Note: note, Source: fromRecord, Count: 1})
		}
	}
	add(record.Created, "flight", fmt.Sprintf("Claimed, attempt %d", record.Attempt), onHolder(record))
	if record.Abandoned() && record.LeaseLeft < 0 {
		ended := time.Now().Add(record.LeaseLeft).Truncate(time.Millisecond)
		add(later(ended, record.Created), "bad", "The lease ended", "no result was stored")
	}
	switch {
	case isByHand(record):
		add(record.Finished, toneOf(stateOf(record)), "Settled by hand: it happened", "no response is known")
	case !record.Finished.IsZero():
		add(record.Finished, toneOf(stateOf(record)), "Settled: "+stateName(stateOf(record)), statusText(record.Status))
	}
	return all
}

func onHolder(record *storage.Record) string {
	if record.Origin.Holder == "" {
		return ""
	}
	return "by " + record.Origin.Holder
}

// texts describe events whose result alone is no sentence.
var texts = map[event.Result]func(*Happened) string{
	event.Execute:           func(one *Happened) string { return fmt.Sprintf("The handler runs, attempt %d", one.Attempt) },
	event.Replay:            func(one *Happened) string { return "Replayed " + statusText(one.Status) },
	event.Completed:         settledText,
	event.Failed:            settledText,
	event.Unreplayable:      settledText,
	event.Uncertain:         func(*Happened) string { return "Left abandoned: the outcome is uncertain" },
	event.DeleteKey:         releasedText,
	event.Retryable:         releasedText,
	event.SettleDeferred:    func(*Happened) string { return "The store did not take the response: it waits in this process" },
	event.TransactionUnused: func(*Happened) string { return "The handler did not take the transaction of its run" },
	event.Reconciled:        func(*Happened) string { return "Settled by the reconciler" },
	event.ReconcileGaveUp:   func(*Happened) string { return "The reconciler gave up: settle the key by hand" },
	event.SettledByHand:     func(one *Happened) string { return "Settled by hand by " + one.Operator },
	event.Forgotten:         func(one *Happened) string { return "Forgotten by " + one.Operator },
	event.Revealed:          func(one *Happened) string { return "The body was shown to " + one.Operator },
}

func settledText(one *Happened) string { return "Settled: " + stateName(string(one.Result)) }

func releasedText(*Happened) string { return "The key was released" }

func textOf(one *Happened) string {
	switch text := texts[one.Result]; {
	case text != nil:
		return text(one)
	case one.Code != "" && one.Status != 0:
		return fmt.Sprintf("%d %s", one.Status, one.Code)
	default:
		return string(one.Result)
	}
}

func noteOf(one *Happened) string {
	if one.Reason != "" {
		return one.Reason
	}
	return one.Error
}

func toneOfResult(result event.Result) string {
	switch result {
	case event.Replay, event.Completed:
		return "good"
	case event.Execute:
		return "flight"
	case event.InProgress, event.KeyReused, event.NotReplayable, event.KeyExpired, event.ScopeLimited, event.Failed, event.Unreplayable, event.SettleDeferred, event.TransactionUnused, event.Forgotten, event.SettledByHand, event.Reconciled:
		return "warn"
	case event.OutcomeUnknown, event.LeaseExpired, event.Uncertain, event.ResponseLost, event.Unavailable, event.StoreError, event.LeaseLost, event.ReconcileGaveUp:
		return "bad"
	default:
		return "plain"
	}
}

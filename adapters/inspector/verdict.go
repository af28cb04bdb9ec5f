package inspector

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// Verdict describes in sentences how a request ended, and which response a retry gets.
type Verdict struct {
	Tone     string `json:"-"`
	Headline string `json:"headline"`
	Story    string `json:"story"`
	// Gets is the response of a retry now: "409", "that response". Code is the problem's code.
	Gets string `json:"gets"`
	Code string `json:"code,omitempty"`
	// Then is the rest of the sentence: the end of that time, and the response afterwards.
	Then string `json:"then"`
}

// verdictOf returns the verdict about a record. declared is the policy of its route, or nil
// when it is not known.
func verdictOf(record *storage.Record, declared *policy.Policy, outlook core.Outlook, asked int) (v Verdict) {
	v.Gets, v.Code = gets(outlook), outlook.Code
	v.Then = afterwards(record, declared, outlook)
	switch {
	case record.State == storage.Released:
		v.Tone, v.Headline = "flight", "It was released, and may run again"
		v.Story = claimed(record) + " It recorded a step, and then released the key."
	case record.Abandoned():
		v.Tone, v.Headline = "bad", "It is not known whether it happened"
		v.Story = claimed(record) + leaseEnded(record) + abandonedRule(declared)
	case record.State == storage.InProgress:
		v.Tone, v.Headline = "flight", "It is running now"+on(record)
		v.Story = claimed(record) + " Its lease has " + inWords(record.LeaseLeft) + " left."
		v.Then = ", until the run ends. It cannot be settled by hand while its lease runs."
	case record.State == storage.Completed:
		v.Tone, v.Headline = "good", fmt.Sprintf("It ran once, and responded %d", record.Status)
		v.Story = ran(record) + askedHere(asked)
	case record.State == storage.Failed:
		v.Tone, v.Headline = "warn", fmt.Sprintf("It failed with %d, and that response is kept", record.Status)
		v.Story = ran(record) + askedHere(asked)
	case isByHand(record):
		v.Tone, v.Headline = "warn", "An operator has settled it: it happened"
		v.Story = claimed(record) + settledByHand(record)
	case record.State == storage.Unreplayable:
		v.Tone, v.Headline = "warn", "It has finished, and its response is not kept"
		v.Story = ran(record) + " The response was streamed or too large."
	default:
		v.tombstone(record)
	}
	if isSealed(record) {
		v.Gets += ", from a process with the key of its seal, and 503 from any other"
	}
	return v
}

// isSealed reports whether the response came out of a store without its seal (package sealedstore): the command reads the
// store itself, and a service may have lost its seal.
func isSealed(record *storage.Record) bool {
	return slices.ContainsFunc(record.Header, func(f storage.Field) bool { return f.Op >= storage.Sealed })
}

// tombstone fills the verdict about an expired record.
func (v *Verdict) tombstone(record *storage.Record) {
	if record.Status == 0 {
		v.Tone, v.Headline = "bad", "It is not known whether it happened"
		v.Story = "The key was abandoned until its record expired. Only its tombstone is left."
		return
	}
	v.Tone, v.Headline = "plain", fmt.Sprintf("It finished with %d, and its response has expired", record.Status)
	v.Story = "Only the tombstone is left: the fingerprint, the attempt and the status."
}

// wait changes the verdict about a run whose result waits in this process for the store.
func (v *Verdict) wait(run *core.Running) {
	v.Tone, v.Headline = "bad", "It has finished, and the store has not taken its response yet"
	v.Story = "The response has waited in this process for " + inWords(run.Unsettled) + ". Do not stop this process."
	v.Then += " That is the response of other processes: this one may know more."
}

// gets names the response of a retry in a word or two.
func gets(outlook core.Outlook) string {
	switch {
	case outlook.Result == "":
		return "409 outcome_unknown or a run of the handler, as the route's policy decides"
	case outlook.Result == event.Execute && outlook.Recovers:
		return "what the policy's Recover function finds"
	case outlook.Result == event.Execute:
		return "a run of the handler"
	case outlook.Result == event.Replay:
		return fmt.Sprintf("that response, %d", outlook.Status)
	default:
		return fmt.Sprintf("%d", outlook.Status)
	}
}

// afterwards names the end of the time in which a retry gets its response, and the response
// afterwards.
func afterwards(record *storage.Record, declared *policy.Policy, outlook core.Outlook) string {
	if record.Expires.IsZero() || outlook.Result == event.Execute || outlook.Result == "" {
		return "."
	}
	remembered := record.State != storage.Expired && declared != nil && declared.Remember > 0
	text := ", until " + moment(record.Expires) + " (in " + inWords(time.Until(record.Expires)) + ")"
	if remembered {
		code := "key_expired"
		if record.Abandoned() {
			code = "outcome_unknown"
		}
		return text + ", and then 409 " + code + " for another " + inWords(declared.Remember) + ". Then a retry would run" + unlessOld(declared)
	}
	if declared == nil && record.State != storage.Expired {
		return text + ". Then a retry would run, unless the route's policy has Remember."
	}
	return text + ". Then the record is gone, and a retry would run" + unlessOld(declared)
}

// unlessOld ends the sentence about a retry without a record.
func unlessOld(declared *policy.Policy) string {
	if declared == nil || declared.KeyAge == 0 {
		return "."
	}
	return ", unless its key is older than " + inWords(declared.KeyAge) + "."
}

func on(record *storage.Record) string {
	if record.Origin.Holder == "" {
		return ""
	}
	return ", on " + record.Origin.Holder
}

// claimed is the sentence about the attempt.
func claimed(record *storage.Record) string {
	text := fmt.Sprintf("Attempt %d began", record.Attempt) + strings.TrimPrefix(on(record), ",")
	if !record.Created.IsZero() {
		text += " at " + moment(record.Created)
	}
	return text + "."
}

func leaseEnded(record *storage.Record) string {
	if record.LeaseLeft == 0 {
		return " Its lease has ended without a result."
	}
	return " Its lease ended " + inWords(-record.LeaseLeft) + " ago without a result."
}

func abandonedRule(declared *policy.Policy) string {
	switch {
	case declared == nil:
		return " The route's policy decides, and no route of this process is known to have made this record."
	case declared.OnAbandoned.Refuses():
		return " The route's policy refuses to run it again."
	case declared.OnAbandoned.RecoverFunc() != nil:
		return " The route's policy looks the outcome up on the next retry."
	default:
		return " The route's policy runs it again on the next retry."
	}
}

// ran is the sentence about a finished attempt.
func ran(record *storage.Record) string {
	text := claimed(record)
	if record.Created.IsZero() || record.Finished.IsZero() {
		return text
	}
	return strings.TrimSuffix(text, ".") + ", and took " + inWords(record.Finished.Sub(record.Created)) + "."
}

// settledByHand is the sentence about the operator's decision. The time of the run is not known.
func settledByHand(record *storage.Record) string {
	if record.Finished.IsZero() {
		return " It was abandoned, and then settled by hand. No response is known."
	}
	return " It was abandoned, and settled by hand at " + moment(record.Finished) + ". No response is known."
}

func askedHere(n int) string {
	if n == 0 {
		return ""
	}
	return " This process was asked " + times(n) + "."
}

// statusText returns "409 Conflict".
func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

package inspector

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

// The values of the field found.
const (
	happened     = "happened"
	didNotHappen = "did-not-happen"
)

// readForm reads the fields of a change by hand.
func readForm(v visit, id string, choices ...string) (f form, ok bool) {
	f = form{Found: v.PostForm.Get("found"), Why: strings.TrimSpace(v.PostForm.Get("why")), Confirm: strings.TrimSpace(v.PostForm.Get("confirm"))}
	switch {
	case f.Why == "":
		f.WhyFault = "Say why: the event keeps it, with your name."
	case len(f.Why) > core.MaxReason:
		f.WhyFault = fmt.Sprintf("Say why in at most %d bytes: yours has %d.", core.MaxReason, len(f.Why))
	}
	if f.Confirm != short(id) {
		f.ConfirmFault = "Type the first 8 digits of this record: " + short(id) + "."
	}
	if len(choices) > 0 && f.Found != choices[0] && f.Found != choices[1] {
		f.FoundFault = "Say what you found."
	}
	return f, !f.Faulty()
}

// attemptOf returns the attempt that the operator has seen.
func attemptOf(v visit) (uint64, error) {
	attempt, err := strconv.ParseUint(v.PostForm.Get("attempt"), 10, 64)
	if err != nil {
		return 0, fault(http.StatusBadRequest, "The form names no attempt", "Open the record again, and use its form.")
	}
	return attempt, nil
}

// settle ends an abandoned key for the operator.
func (p *Page) settle(v visit) (screen, error) {
	id := v.PathValue("id")
	attempt, err := attemptOf(v)
	if err != nil {
		return screen{}, err
	}
	filled, ok := readForm(v, id, happened, didNotHappen)
	if !ok {
		return p.again(v, id, filled)
	}
	confirmation, notice := storage.Happened, "happened"
	if filled.Found == didNotHappen {
		confirmation, notice = storage.DidNotHappen, "not-happened"
	}
	err = p.records.Settle(v.Context(), id, attempt, confirmation, core.ByHand{Operator: v.operator.Name, Reason: filled.Why})
	return p.changed(v, id, notice, err)
}

// forget removes a finished record.
func (p *Page) forget(v visit) (screen, error) {
	id := v.PathValue("id")
	attempt, err := attemptOf(v)
	if err != nil {
		return screen{}, err
	}
	filled, ok := readForm(v, id)
	if !ok {
		return p.again(v, id, filled)
	}
	_, err = p.records.Forget(v.Context(), id, attempt, storage.RerunIsSafe, core.ByHand{Operator: v.operator.Name, Reason: filled.Why})
	return p.changed(v, id, "forgotten", err)
}

// again shows the record with the faults of the form.
func (p *Page) again(v visit, id string, filled form) (screen, error) {
	shown, err := p.show(v, id, false)
	if data, isRecord := shown.data.(*Record); err == nil && isRecord {
		data.Form = filled
		data.Notice = strings.TrimSpace(filled.FoundFault + " " + filled.WhyFault + " " + filled.ConfirmFault)
		shown.status = http.StatusUnprocessableEntity
	}
	return shown, err
}

// changed shows the record after a change, or why there was none.
func (p *Page) changed(v visit, id, notice string, err error) (screen, error) {
	running := errors.Is(err, core.ErrStillRunning)
	if err != nil && !running && !errors.Is(err, storage.ErrNotAbandoned) {
		return screen{}, err
	}
	shown, showErr := p.show(v, id, false)
	data, isRecord := shown.data.(*Record)
	switch {
	case showErr != nil:
		return screen{}, showErr
	case !isRecord:
		return shown, nil
	case running:
		data.Notice = "The record was not changed: the handler may still be running."
		shown.status = http.StatusConflict
	case err != nil:
		data.Notice = "The record was not changed, because it is not as you saw it any more. Read it again."
		shown.status = http.StatusConflict
	default:
		shown.status = http.StatusOK
		shown.redirect = "records/" + id + "?done=" + notice
	}
	return shown, nil
}

package inspector

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// readForm reads the fields of a change by hand, and the attempt that the operator has seen.
func readForm(v visit, choices ...string) (f form, attempt uint64, err error) {
	attempt, err = strconv.ParseUint(v.PostForm.Get("attempt"), 10, 64)
	if err != nil {
		return f, 0, fault(http.StatusBadRequest, "The form names no attempt", "Open the record again, and use its form.")
	}
	f = form{Found: v.PostForm.Get("found"), Why: strings.TrimSpace(v.PostForm.Get("why")), Confirm: strings.TrimSpace(v.PostForm.Get("confirm"))}
	switch {
	case f.Why == "":
		f.WhyFault = "Say why: the event keeps it, with your name."
	case len(f.Why) > core.MaxReason:
		f.WhyFault = fmt.Sprintf("Say why in at most %d bytes: yours has %d.", core.MaxReason, len(f.Why))
	}
	if digits := short(v.PathValue("id")); f.Confirm != digits {
		f.ConfirmFault = "Type the first 8 digits of this record: " + digits + "."
	}
	if len(choices) > 0 && !slices.Contains(choices, f.Found) {
		f.FoundFault = "Say what you found."
	}
	return f, attempt, nil
}

// settle ends an abandoned key for the operator.
func (p *Page) settle(v visit) (screen, error) {
	filled, attempt, err := readForm(v, happened, didNotHappen)
	switch {
	case err != nil:
		return screen{}, err
	case filled.Faulty():
		return p.again(v, filled)
	}
	confirmation, notice := storage.Happened, "happened"
	if filled.Found == didNotHappen {
		confirmation, notice = storage.DidNotHappen, "not-happened"
	}
	err = p.records.Settle(v.Context(), v.PathValue("id"), attempt, confirmation, core.ByHand{Operator: v.operator.Name, Reason: filled.Why})
	return p.changed(v, notice, err)
}

// forget removes a finished record.
func (p *Page) forget(v visit) (screen, error) {
	filled, attempt, err := readForm(v)
	switch {
	case err != nil:
		return screen{}, err
	case filled.Faulty():
		return p.again(v, filled)
	}
	_, err = p.records.Forget(v.Context(), v.PathValue("id"), attempt, storage.RerunIsSafe, core.ByHand{Operator: v.operator.Name, Reason: filled.Why})
	return p.changed(v, "forgotten", err)
}

// again shows the record with the faults of the form.
func (p *Page) again(v visit, filled form) (screen, error) {
	shown, err := p.show(v, v.PathValue("id"), false)
	if data, isRecord := shown.data.(*Record); err == nil && isRecord {
		data.Form = filled
		data.Notice = strings.TrimSpace(filled.FoundFault + " " + filled.WhyFault + " " + filled.ConfirmFault)
		shown.status = http.StatusUnprocessableEntity
	}
	return shown, err
}

// changed shows the record after a change, or why there was none.
func (p *Page) changed(v visit, notice string, err error) (screen, error) {
	id := v.PathValue("id")
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

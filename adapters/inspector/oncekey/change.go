package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// settleCommand settles an abandoned key for an operator.
type settleCommand struct {
	change
	Happened     bool `xor:"found" required:"" help:"The operation happened: retries get 409 not_replayable, and never run."`
	DidNotHappen bool `xor:"found" required:"" help:"The operation did not happen, and will not: the next retry runs."`
}

// Run implements the command.
func (c *settleCommand) Run(ctx context.Context, out *printer, from *page) error {
	found := "happened"
	if c.DidNotHappen {
		found = "did-not-happen"
	}
	return c.make(ctx, out, from, found, true)
}

// forgetCommand removes a record.
type forgetCommand struct{ change }

// Run implements the command. An abandoned key is settled as not happened: the comparison
// with the record is then one step with the change.
func (c *forgetCommand) Run(ctx context.Context, out *printer, from *page) error {
	return c.make(ctx, out, from, "did-not-happen", false)
}

// change is a change by hand.
type change struct {
	subject
	Why         string `required:"" placeholder:"TEXT" help:"The reason, such as a ticket's number. The log keeps it."`
	YesRunAgain string `placeholder:"RECORD" help:"The record's first 8 digits, in place of typing them."`
}

// make settles an abandoned key as the operator has found. It forgets a finished record, unless mustSettle.
func (c *change) make(ctx context.Context, out *printer, from *page, found string, mustSettle bool) error {
	if strings.TrimSpace(c.Why) == "" {
		return usage("--why is empty: say why, for example by a ticket's number")
	}
	record, err := c.find(ctx, from)
	if err != nil {
		return err
	}
	if !record.Found {
		return out.record(record)
	}
	if out.isTable() {
		out.headline(record)
	}
	action, err := actionOn(record, mustSettle)
	if err != nil {
		return err
	}
	if found == "did-not-happen" {
		if err := c.confirm(ctx, out, record.Record); err != nil {
			return err
		}
	}
	form := url.Values{
		"found": {found}, "why": {c.Why}, "confirm": {short(record.Record)},
		"attempt": {strconv.FormatUint(record.Attempt, 10)},
	}
	after := new(inspector.Record)
	status, err := from.post(ctx, "records/"+record.Record+"/"+action, form, after)
	switch {
	case errors.As(err, new(unreachableError)):
		return unreachableError{fmt.Errorf("%w; whether the record was changed is not known: oncekey show %s", err, short(record.Record))}
	case err != nil:
		return err
	case status == http.StatusConflict || status == http.StatusUnprocessableEntity:
		return errors.New(after.Notice)
	}
	return out.changed(after, found)
}

// actionOn returns the page's action for the record, or why there is none.
func actionOn(record *inspector.Record, mustSettle bool) (string, error) {
	switch {
	case record.State == "in_progress":
		lease := time.Duration(record.LeaseLeft) * time.Millisecond
		return "", fmt.Errorf("refused: its lease ends in %s, so its handler may be running; nothing was changed", span(lease))
	case record.State == "abandoned":
		return "settle", nil
	case mustSettle:
		return "", fmt.Errorf("refused: the record is %s, and only an abandoned one can be settled; nothing was changed", record.State)
	default:
		return "forget", nil
	}
}

// confirm asks the operator to type the record's first digits, unless the command line has
// them.
func (c *change) confirm(ctx context.Context, out *printer, id string) error {
	if c.YesRunAgain != "" {
		if c.YesRunAgain != short(id) {
			return usage("--yes-run-again is %q: give the record's first %d digits, %s", c.YesRunAgain, idDigits, short(id))
		}
		return nil
	}
	fmt.Fprintf(out.err, "The next retry RUNS the handler. Type %s to go on: ", short(id))
	typed, _ := out.read(ctx, func(in io.Reader) (string, error) { return bufio.NewReader(in).ReadString('\n') }) // the end of the input is no confirmation
	if strings.TrimSpace(typed) != short(id) {
		return errors.New("not confirmed; nothing was changed")
	}
	return nil
}

// changed writes the result of a change.
func (p *printer) changed(after *inspector.Record, found string) error {
	if !p.isTable() {
		return p.document(after)
	}
	if found == "happened" {
		p.line("settled: retries get 409 not_replayable, and never run")
	} else {
		p.line("done: the next retry runs the handler")
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core/event"
)

// tailCommand follows the events of a service.
type tailCommand struct {
	Every  time.Duration `default:"1s" help:"Ask the page so often."`
	Once   bool          `help:"Print the latest events, and end. With --result or --record: all that the service remembers."`
	Result []string      `placeholder:"NAME" help:"Only events with this result, such as response_lost."`
	Record string        `placeholder:"RECORD" help:"Only events of the record whose id begins so."`
}

// Help implements kong.HelpProvider.
func (*tailCommand) Help() string {
	return "One process remembers its own events: their number is the option of inspector.Remember, and a restart forgets them. Behind a load " +
		"balancer each request may reach another process, so the list has gaps and mixes processes. Give --url the address of one process, or " +
		"search the log, which has the events of all."
}

// Run implements the command.
func (c *tailCommand) Run(ctx context.Context, out *printer, where *place) error {
	if where.URL == "" {
		return usage("give --url: the events are in the memory of a service, and its inspector page has them")
	}
	if err := c.check(); err != nil {
		return err
	}
	from, err := where.page(out)
	if err != nil {
		return err
	}
	query := url.Values{}
	if c.filters() {
		query.Set("after", "0")
	}
	for first, found := true, 0; ; first = false {
		shown := new(inspector.Tail)
		_, err := from.get(ctx, "events", query, shown)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a signal ends the command
		}
		if err != nil {
			return err
		}
		n, err := c.print(out, shown, first)
		if found += n; err != nil {
			return err
		}
		query.Set("after", strconv.FormatUint(shown.Next, 10))
		if len(shown.Events) >= fullReply {
			continue // there are more
		}
		if c.Once {
			return c.ended(found)
		}
		if !wait(ctx, c.Every) {
			return nil
		}
	}
}

// wait reports whether the time has passed before a signal.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// fullReply is the number of events from which on a page may have more of them.
const fullReply = 1000

// ofEvents matches the begin of a record's id.
var ofEvents = regexp.MustCompile(`^[0-9a-f]{0,64}$`)

// check refuses filters that no event can match.
func (c *tailCommand) check() error {
	if c.Every <= 0 {
		return usage("--every is %s: give a positive time", c.Every)
	}
	if !ofEvents.MatchString(c.Record) {
		return usage("--record is %q: give the first digits of a record's id, record= in the log", c.Record)
	}
	for _, name := range c.Result {
		if !slices.Contains(results, event.Result(name)) {
			return usage("--result is %q: give one of %s", name, strings.Trim(fmt.Sprint(results), "[]"))
		}
	}
	return nil
}

// results are those that a page remembers: all but lease_renewed.
var results = []event.Result{
	event.Execute, event.Replay, event.InProgress, event.KeyReused, event.NotReplayable, event.KeyExpired, event.OutcomeUnknown,
	event.ScopeLimited, event.Refused, event.Unprotected, event.Unavailable, event.NoKey, event.Skipped, event.WrongSetup,
	event.Completed, event.Failed, event.Unreplayable, event.DeleteKey, event.Retryable, event.Uncertain, event.SettleDeferred,
	event.ResponseLost, event.NotConfirmed, event.LeaseLost, event.LeaseExpired, event.RunTooLong, event.StoreError,
	event.RecoverError, event.TransactionUnused, event.CallbackPanicked, event.Reconciled, event.ReconcileGaveUp,
	event.SettledByHand, event.Forgotten, event.Revealed,
}

func (c *tailCommand) filters() bool { return c.Record != "" || len(c.Result) > 0 }

// ended returns errNothing for a filter that no event has matched.
func (c *tailCommand) ended(found int) error {
	if found == 0 && c.filters() {
		return errNothing
	}
	return nil
}

// print writes the events that the command line asks for, and returns their number.
func (c *tailCommand) print(out *printer, shown *inspector.Tail, first bool) (found int, err error) {
	switch {
	case shown.Skipped == 0:
	case first:
		fmt.Fprintf(out.err, "oncekey: %d earlier events are not remembered any more\n", shown.Skipped)
	default:
		fmt.Fprintf(out.err, "oncekey: %d events came faster than --every, and are not remembered any more\n", shown.Skipped)
	}
	for i := range shown.Events {
		one := &shown.Events[i]
		if !c.wants(one) {
			continue
		}
		found++
		if !out.isTable() {
			if err := out.document(one); err != nil {
				return found, err
			}
			continue
		}
		out.line("%s", eventText(one))
	}
	return found, nil
}

func (c *tailCommand) wants(one *inspector.Happened) bool {
	if !strings.HasPrefix(one.Record, c.Record) {
		return false
	}
	return len(c.Result) == 0 || slices.Contains(c.Result, string(one.Result))
}

func eventText(one *inspector.Happened) string {
	words := []string{one.At.UTC().Format("15:04:05.000"), fmt.Sprintf("%-8s", short(one.Record)), string(one.Result)}
	if one.Status != 0 {
		words = append(words, strconv.Itoa(one.Status))
	}
	words = append(words, one.Endpoint)
	if one.Attempt > 0 {
		words = append(words, "attempt "+strconv.FormatUint(one.Attempt, 10))
	}
	for _, pair := range [][2]string{{"by ", one.Operator}, {"", one.Reason}, {"", one.Error}} {
		if pair[1] != "" {
			words = append(words, pair[0]+pair[1])
		}
	}
	return strings.Join(words, "  ")
}

package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// tailCommand follows the events of a service.
type tailCommand struct {
	Every  time.Duration `default:"1s" help:"Ask the page so often."`
	Once   bool          `help:"Print the latest events, and end."`
	Result []string      `placeholder:"NAME" help:"Only events with this result, such as response_lost."`
	Record string        `placeholder:"RECORD" help:"Only events of the record whose id begins so."`
}

// Run implements the command.
func (c *tailCommand) Run(ctx context.Context, out *printer, where *place) error {
	if where.URL == "" {
		return usage("give --url: the events are in the memory of a service, and its inspector page has them")
	}
	if c.Every <= 0 {
		return usage("--every is %s: give a positive time", c.Every)
	}
	from, err := where.page(out)
	if err != nil {
		return err
	}
	query := url.Values{}
	for {
		shown := new(inspector.Tail)
		_, err := from.get(ctx, "events", query, shown)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a signal ends the command
		}
		if err == nil {
			err = c.print(out, shown)
		}
		if err != nil || c.Once {
			return err
		}
		query.Set("after", strconv.FormatUint(shown.Next, 10))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

func (c *tailCommand) print(out *printer, shown *inspector.Tail) error {
	if shown.Skipped > 0 {
		fmt.Fprintf(out.err, "oncekey: %d events came faster than --every, and are not remembered any more\n", shown.Skipped)
	}
	for i := range shown.Events {
		one := &shown.Events[i]
		if !c.wants(one) {
			continue
		}
		if !out.isTable() {
			if err := out.document(one); err != nil {
				return err
			}
			continue
		}
		out.line("%s", eventText(one))
	}
	return nil
}

func (c *tailCommand) wants(one *inspector.Happened) bool {
	if !strings.HasPrefix(one.Record, c.Record) {
		return false
	}
	return len(c.Result) == 0 || slices.Contains(c.Result, one.Result)
}

func eventText(one *inspector.Happened) string {
	words := []string{one.At.UTC().Format("15:04:05.000"), fmt.Sprintf("%-8s", short(one.Record)), one.Result}
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

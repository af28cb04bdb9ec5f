package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// listCommand lists records.
type listCommand struct {
	State  string        `enum:"open,abandoned,in_progress,completed,failed,unreplayable,released,expired,all" default:"open" help:"Of this state: open (in progress, abandoned or not), abandoned, in_progress, completed, failed, unreplayable, released, expired, all."`
	Route  string        `placeholder:"PATTERN" help:"Of this route, as the list prints it: \"POST /payments\", or /payments where chi's and gin's records are read from the store."`
	Older  time.Duration `placeholder:"DURATION" help:"Claimed at least this long ago."`
	Limit  int           `default:"100" help:"At most so many records, 1 to 1000."`
	Look   int           `default:"20000" help:"Look at so many records before the list stops."`
	Cursor string        `placeholder:"TEXT" help:"Continue a list."`
	All    bool          `help:"Continue to the last record."`
}

// Run implements the command.
func (c *listCommand) Run(ctx context.Context, out *printer, from *page) error {
	query := c.query()
	all := &inspector.Records{Records: []inspector.Row{}} // an empty list in JSON is no null
	for {
		shown := new(inspector.Records)
		if _, err := from.get(ctx, "", query, shown); err != nil {
			return err
		}
		all.Records = append(all.Records, shown.Records...)
		all.LookedAt, all.Next = all.LookedAt+shown.LookedAt, shown.Next
		if !c.All || shown.Next == "" {
			break
		}
		if shown.Next == query.Get("cursor") {
			return fmt.Errorf("%s: the list does not go on after %q", from.base, shown.Next)
		}
		query.Set("cursor", shown.Next)
	}
	if err := out.records(all); err != nil {
		return err
	}
	if len(all.Records) == 0 {
		return errNothing
	}
	return nil
}

func (c *listCommand) query() url.Values {
	query := url.Values{"state": {c.State}, "limit": {strconv.Itoa(c.Limit)}, "look": {strconv.Itoa(c.Look)}}
	if c.Route != "" {
		query.Set("route", c.Route)
	}
	if c.Older != 0 {
		query.Set("older", c.Older.String())
	}
	if c.Cursor != "" {
		query.Set("cursor", c.Cursor)
	}
	return query
}

// listed is the JSON of a list.
type listed struct {
	Records  any    `json:"records"`
	LookedAt int    `json:"lookedAt"`
	Next     string `json:"next,omitempty"`
}

// records writes a list.
func (p *printer) records(all *inspector.Records) error {
	if !p.isTable() {
		return documents(p, listed{all.Records, all.LookedAt, all.Next}, all.Records)
	}
	rows := [][]string{{"RECORD", "STATE", "ROUTE", "ATTEMPT", "STATUS", "CLAIMED", "LEASE", "KEPT FOR", "HOLDER"}}
	for _, one := range all.Records {
		status, lease := "-", "-"
		switch {
		case one.ByHand:
			status = "by hand"
		case one.Status != 0:
			status = strconv.Itoa(one.Status)
		}
		if one.LeaseLeft != 0 {
			lease = span(time.Duration(one.LeaseLeft) * time.Millisecond)
		}
		kept := "-"
		if !one.Expires.IsZero() {
			kept = span(time.Until(one.Expires))
		}
		rows = append(rows, []string{short(one.Record), one.State, cmp.Or(one.Endpoint, one.Route, "-"), strconv.FormatUint(one.Attempt, 10), status, ago(one.Created), lease, kept, cmp.Or(one.Holder, "-")})
	}
	if len(all.Records) > 0 {
		if err := p.table(rows); err != nil {
			return err
		}
	}
	p.line("%d shown, %d looked at%s", len(all.Records), all.LookedAt, more(all.Next))
	return nil
}

func more(cursor string) string {
	if cursor == "" {
		return ", no more"
	}
	return "; more: --cursor " + shellWord(cursor) + ", or --all"
}

var noQuotes = regexp.MustCompile(`^[A-Za-z0-9_.:/+=-]+$`)

// shellWord returns a text of others as a shell reads it in a command that operators copy.
func shellWord(text string) string {
	if noQuotes.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

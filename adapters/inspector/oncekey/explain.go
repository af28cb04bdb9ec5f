package main

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// explainCommand says what a retry would get.
type explainCommand struct {
	keyed
	Body   string   `placeholder:"TEXT" help:"The retry's body; @retry.json reads a file, and - the standard input."`
	Type   string   `default:"application/json" help:"The retry's Content-Type."`
	Header []string `placeholder:"NAME: VALUE" sep:"none" help:"A header that the policy includes."`
	Route  string   `placeholder:"PATTERN" help:"The route whose policy decides, where the request does not tell."`
}

// Run implements the command.
func (c *explainCommand) Run(ctx context.Context, out *printer, where *place, from *page) error {
	body, err := c.body(ctx, out)
	if err != nil {
		return usage("--body: %v", err)
	}
	for _, line := range c.Header {
		if !strings.Contains(line, ":") {
			return usage("--header is %q: give NAME: VALUE, such as \"X-Version: 2\"", line)
		}
	}
	form := c.form()
	form.Set("type", c.Type)
	form.Set("headers", strings.Join(c.Header, "\n"))
	form.Set("route", c.Route)
	form.Set("body", body)
	found := new(inspector.Explanation)
	if _, err := from.post(ctx, "explain", form, found); err != nil {
		return err
	}
	where.declared(found.Policy)
	if !out.isTable() {
		return out.document(found)
	}
	if err := out.explanation(found); err != nil {
		return err
	}
	return out.table(where.unknownPolicy(found.Policy))
}

// unknownPolicy is the note where a store alone is known, and no policy.
func (p *place) unknownPolicy(policy *inspector.RoutePolicy) (rows [][]string) {
	if p.URL == "" && policy == nil {
		rows = append(rows, []string{"note", "its policy is not known here: give --policies, or --url of the service's page"})
	}
	return rows
}

func (c *explainCommand) body(ctx context.Context, out *printer) (string, error) {
	if c.Body == "-" {
		return out.read(ctx, func(in io.Reader) (string, error) {
			text, err := io.ReadAll(in)
			return string(text), err
		})
	}
	text, err := bodyOf(c.Body)
	return string(text), err
}

func (p *printer) explanation(x *inspector.Explanation) error {
	p.line("%s", x.Headline)
	p.line("%s", x.Story)
	rows := [][]string{{"record", x.Record}}
	if x.State != "" {
		rows = append(rows, []string{"state", x.State})
	}
	if x.Policy != nil {
		rows = append(rows, []string{"policy", policyText(x.Policy)})
	}
	for _, member := range x.Members {
		if member.Same {
			rows = append(rows, []string{"same", member.Name})
		} else {
			rows = append(rows, []string{"differs", member.Name + ": " + member.Advice})
		}
	}
	if x.Others > 0 {
		rows = append(rows, []string{"differs", strconv.Itoa(x.Others) + " more, whose names may not be shown"})
	}
	if x.Missing > 0 {
		rows = append(rows, []string{"missing", strconv.Itoa(x.Missing) + " of the first request"})
	}
	for _, remark := range x.Remarks {
		rows = append(rows, []string{"note", remark})
	}
	return p.table(rows)
}

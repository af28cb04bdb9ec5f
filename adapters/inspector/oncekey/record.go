package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// subject names a record by its id, or as its client did.
type subject struct {
	Scope string   `placeholder:"TEXT" env:"ONCEKEY_SCOPE" help:"Whose key it is: the text that the program's scope returns. Default: that of core.SharedScope."`
	Names []string `arg:"" name:"record" help:"A record's id (record= in the log) or its first digits; or a request such as \"POST /payments\", and its key."`
}

// Ids of records, and their first digits.
var (
	wholeID = regexp.MustCompile(`^[0-9a-f]{64}$`)
	digits  = regexp.MustCompile(`^[0-9a-f]{6,63}$`)
)

// isID matches the ids of a page: operators copy commands with their first digits.
var isID = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// find returns the record, also where it is not found.
func (s *subject) find(ctx context.Context, from *page) (*inspector.Record, error) {
	record, err := s.look(ctx, from)
	if err == nil && !isID.MatchString(record.Record) {
		return nil, fmt.Errorf("%s: the page names the record %q, and an id has 64 hex digits", from.base, record.Record)
	}
	return record, err
}

func (s *subject) look(ctx context.Context, from *page) (*inspector.Record, error) {
	record := new(inspector.Record)
	switch {
	case len(s.Names) == 2:
		_, err := from.post(ctx, "find", keyed{s.Scope, s.Names[0], s.Names[1]}.form(), record)
		return record, err
	case len(s.Names) > 2:
		return nil, usage("%d names are given: give a record's id, or a request in quotes, such as \"POST /payments\", and its key", len(s.Names))
	case wholeID.MatchString(s.Names[0]):
		_, err := from.get(ctx, "records/"+s.Names[0], nil, record)
		return record, err
	case digits.MatchString(s.Names[0]):
		id, err := from.complete(ctx, s.Names[0])
		if err != nil {
			return nil, err
		}
		_, err = from.get(ctx, "records/"+id, nil, record)
		return record, err
	default:
		return nil, usage("the record is %q: give its id, at least 6 digits of it, or a request such as \"POST /payments\" and its key", s.Names[0])
	}
}

// keyed names a record as its client did: by a request and its key.
type keyed struct {
	Scope   string `placeholder:"TEXT" env:"ONCEKEY_SCOPE" help:"Whose key it is: the text that the program's scope returns. Default: that of core.SharedScope."`
	Request string `arg:"" help:"The request, such as \"POST /payments?channel=app\"."`
	Key     string `arg:"" help:"The key as the client sends it."`
}

// form is the request and the key, as the page reads them.
func (k keyed) form() url.Values {
	return url.Values{"scope": {k.Scope}, "target": {k.Request}, "key": {k.Key}}
}

// complete returns the only id that begins with these digits: first among the records in
// progress, then among the first 20,000 records.
func (p *page) complete(ctx context.Context, prefix string) (string, error) {
	for _, state := range []string{"open", "all"} {
		found, whole, err := p.withPrefix(ctx, prefix, state)
		switch {
		case err != nil:
			return "", err
		case len(found) > 1:
			return "", usage("%d records begin with %s: %s and %s are two of them; give more digits", len(found), prefix, found[0], found[1])
		case len(found) == 1:
			return found[0], nil
		case state == "all" && !whole:
			return "", fmt.Errorf("no record begins with %s among the first %d: give the whole id, record= in the log", prefix, prefixLook)
		}
	}
	return "", fmt.Errorf("no record begins with %s", prefix)
}

// prefixLook is the number of records in which complete looks.
const prefixLook = 20_000

func (p *page) withPrefix(ctx context.Context, prefix, state string) (found []string, whole bool, err error) {
	query := url.Values{"state": {state}, "limit": {"1000"}}
	for looked := 0; looked < prefixLook; {
		shown := new(inspector.Records)
		if _, err := p.get(ctx, "", query, shown); err != nil {
			return nil, false, err
		}
		for _, one := range shown.Records {
			// Redis may list a record twice.
			if strings.HasPrefix(one.Record, prefix) && !slices.Contains(found, one.Record) {
				found = append(found, one.Record)
			}
		}
		if shown.Next == "" {
			return found, true, nil
		}
		looked += max(1, shown.LookedAt)
		query.Set("cursor", shown.Next)
	}
	return found, false, nil
}

// showCommand shows one record.
type showCommand struct {
	subject
	Body bool `help:"Show the body of the stored response, masked. A program reports the event revealed."`
}

// Run implements the command.
func (c *showCommand) Run(ctx context.Context, out *printer, where *place, from *page) error {
	record, err := c.find(ctx, from)
	if err != nil {
		return err
	}
	if out.revealed = c.Body; c.Body && record.Found {
		if _, err := from.post(ctx, "records/"+record.Record+"/reveal", url.Values{}, record); err != nil {
			return err
		}
	}
	where.declared(record.Policy)
	if err := out.record(record); err != nil || !out.isTable() {
		return err
	}
	return out.table(where.unknown(record))
}

// declared names the place of a policy over a store: the file of policies, and not this
// program's own source.
func (p *place) declared(policy *inspector.RoutePolicy) {
	if p.URL == "" && policy != nil {
		policy.DeclaredAt = p.Policies
	}
}

// unknown are the facts about a record that a service knows, and a store does not.
func (p *place) unknown(record *inspector.Record) (rows [][]string) {
	rows = p.unknownPolicy(record.Policy)
	if p.URL == "" && len(p.Derive) == 0 {
		rows = append(rows, []string{"note", "its downstream keys are not known here: give --derive with each name of core.DeriveKey"})
	}
	return rows
}

// record writes a record, and returns errNothing if there is none.
func (p *printer) record(r *inspector.Record) error {
	switch {
	case !p.isTable():
		if err := p.document(r); err != nil {
			return err
		}
	case !r.Found:
		p.line("%s  no record", short(r.Record))
		p.line("The key never arrived, was released, has expired, or belongs to another scope, method, path or --service. Unless it does, a retry would run.")
	default:
		p.describe(r)
	}
	if !r.Found {
		return errNothing
	}
	return nil
}

// describe writes a record for people.
func (p *printer) describe(r *inspector.Record) {
	p.headline(r)
	p.line("%s. %s", r.Verdict.Headline, r.Verdict.Story)
	gets := r.Verdict.Gets
	if r.Verdict.Code != "" {
		gets += " " + r.Verdict.Code
	}
	p.line("A retry gets %s%s", gets, r.Verdict.Then)
	rows := [][]string{{"record", r.Record}}
	for _, step := range r.Steps {
		rows = append(rows, []string{"step", step.Name + "  " + stepState(step, r.State)})
	}
	for _, derived := range r.Derived {
		rows = append(rows, []string{"downstream", derived.Name + "  " + derived.Key + "  (ask your provider)"})
	}
	if r.Trace != "" {
		rows = append(rows, []string{"trace", r.Trace})
	}
	if r.Policy != nil {
		rows = append(rows, []string{"policy", policyText(r.Policy)})
	}
	rows = append(rows, responseRows(r.Response, p.revealed)...)
	for _, moment := range r.Timeline {
		if moment.Source == "this process" {
			rows = append(rows, []string{"seen", strings.TrimSpace(moment.At.UTC().Format(time.RFC3339) + "  " + moment.Text + "  " + moment.Note)})
		}
	}
	for _, next := range nextSteps(r) {
		rows = append(rows, []string{"next", next})
	}
	_ = p.table(rows)
}

// headline writes the line that names a record.
func (p *printer) headline(r *inspector.Record) {
	text := "  " + cmp.Or(r.Endpoint, r.Route) + "  attempt " + strconv.FormatUint(r.Attempt, 10)
	switch {
	case r.ByHand:
		text += "  settled by hand"
	case r.Status != 0:
		text += "  " + strconv.Itoa(r.Status)
	}
	if !r.Created.IsZero() {
		text += "  claimed " + ago(r.Created) + " ago"
		if r.Holder != "" {
			text += " by " + r.Holder
		}
	}
	switch lease := time.Duration(r.LeaseLeft) * time.Millisecond; {
	case lease < 0:
		text += ", lease ended " + span(-lease) + " ago"
	case lease > 0:
		text += ", lease ends in " + span(lease)
	}
	p.emphasized(short(r.Record)+"  ", r.State, text)
}

func stepState(step inspector.Step, state string) string {
	switch {
	case step.Recorded:
		return "recorded"
	case state == "abandoned":
		return "cut off: ask the other service"
	default:
		return "running"
	}
}

func policyText(declared *inspector.RoutePolicy) string {
	text := declared.Text
	if text == "" {
		text = "the defaults"
	}
	return text + "  (" + declared.DeclaredAt + ")"
}

func responseRows(response *inspector.Response, revealed bool) (rows [][]string) {
	if response == nil {
		return nil
	}
	rows = append(rows, []string{"response", fmt.Sprintf("%d, %d bytes", response.Status, response.Bytes)})
	for _, field := range response.Headers {
		value := field.Value
		if field.Hidden {
			value = "(hidden)"
		}
		rows = append(rows, []string{"header", field.Name + ": " + value})
	}
	if revealed && !response.Shown && response.Bytes > 0 {
		rows = append(rows, []string{"body", "(hidden: only JSON can be masked, or the service's inspector.Redact)"})
	}
	name := "body"
	for line := range strings.Lines(response.Body) {
		rows = append(rows, []string{name, strings.TrimSuffix(line, "\n")})
		name = ""
	}
	return rows
}

// nextSteps are the commands for a record that an operator can change.
func nextSteps(r *inspector.Record) []string {
	switch {
	case r.MaySettle:
		return []string{
			"oncekey settle " + short(r.Record) + ` --happened --why "..."`,
			"oncekey settle " + short(r.Record) + ` --did-not-happen --why "..."`,
		}
	case r.MayForget:
		return []string{"oncekey forget " + short(r.Record) + ` --why "..."   (the next retry runs)`}
	default:
		return nil
	}
}

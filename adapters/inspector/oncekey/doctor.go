package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// doctorCommand checks the set-up of the store.
type doctorCommand struct{}

// Run implements the command.
func (*doctorCommand) Run(ctx context.Context, out *printer, where *place, from *page) error {
	found := new(inspector.Doctor)
	if _, err := from.get(ctx, "doctor", nil, found); err != nil {
		return err
	}
	for i := range found.Findings {
		one := &found.Findings[i]
		one.Seen = oneLine(out.hide(one.Seen)) // a driver's error
		if where.URL == "" {
			asStore(one)
		}
	}
	if err := out.findings(found); err != nil {
		return err
	}
	if found.Mend > 0 {
		return errNothing
	}
	return nil
}

// findings writes one line for each check, and its advice below.
func (p *printer) findings(found *inspector.Doctor) error {
	if !p.isTable() {
		return documents(p, found, found.Findings)
	}
	for _, one := range brief(found.Findings) {
		p.emphasized("", one.Grade, fmt.Sprintf("%*s%s: %s", max(1, 9-len(one.Grade)), "", one.Check, one.Seen))
		if one.Advice != "" {
			p.line("%9s%s", "", one.Advice)
		}
	}
	p.line("%d checks, %d to mend, %d to look at", len(found.Findings), found.Mend, found.Look)
	return nil
}

// brief makes one of the neighbours that were skipped for the same reason, such as all checks
// of a server that cannot be reached.
func brief(findings []inspector.Finding) (all []inspector.Finding) {
	for at := 0; at < len(findings); {
		one, end := findings[at], at+1
		for end < len(findings) && one.Grade == "skipped" && findings[end].Grade == one.Grade && findings[end].Seen == one.Seen && findings[end].Advice == one.Advice {
			end++
		}
		if n := end - at; n > 1 {
			one.Check = fmt.Sprintf("%d checks, from %s to %s", n, one.Check, findings[end-1].Check)
		}
		all = append(all, one)
		at = end
	}
	return all
}

// asStore changes a finding about an option of the program's store: this command has opened
// the store without, and cannot see whether the program has it.
func asStore(one *inspector.Finding) {
	one.Seen = strings.TrimSuffix(one.Seen, ", WaitReplicas 0")
	one.Advice = strings.Replace(one.Advice, ": see WaitReplicas", ", unless the program has WaitReplicas: its inspector page knows", 1)
}

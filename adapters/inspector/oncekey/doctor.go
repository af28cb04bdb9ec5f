package main

import (
	"context"
	"fmt"

	"github.com/oncekey/oncekey/adapters/inspector"
)

// doctorCommand checks the set-up of the store.
type doctorCommand struct{}

// Run implements the command.
func (*doctorCommand) Run(ctx context.Context, out *printer, where *place) error {
	from, err := where.page(out)
	if err != nil {
		return err
	}
	found := new(inspector.Doctor)
	if _, err := from.get(ctx, "doctor", nil, found); err != nil {
		return err
	}
	for i := range found.Findings { // a driver's error
		found.Findings[i].Seen = oneLine(out.hide(found.Findings[i].Seen))
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
	switch p.format {
	case "json":
		return p.document(found)
	case "ndjson":
		for _, one := range found.Findings {
			if err := p.document(one); err != nil {
				return err
			}
		}
		return nil
	}
	for _, one := range found.Findings {
		p.emphasized("", one.Grade, fmt.Sprintf("%*s%s: %s", max(1, 9-len(one.Grade)), "", one.Check, one.Seen))
		if one.Advice != "" {
			p.line("%9s%s", "", one.Advice)
		}
	}
	p.line("%d checks, %d to mend, %d to look at", len(found.Findings), found.Mend, found.Look)
	return nil
}

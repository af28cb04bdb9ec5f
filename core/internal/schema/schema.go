// Package schema proves that a table is the one that a store was written for: its
// columns, their types and its key. A claim in another table may be granted twice, or
// may never be settled.
package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// Table is what a store expects. The lists are one for each dialect of SQL.
type Table struct {
	// Key is the column with a unique index of its own.
	Key     string
	Columns []Column
}

// Column is a column that a store expects.
type Column struct {
	Name string
	// Types are the types that do, in the words of the database. The first is the
	// migrations'.
	Types []string
	// Null: the store writes null.
	Null bool
}

// Found is a column that a database has.
type Found struct {
	Name, Type string
	// Null: the column takes null. Filled: it has a default, or is computed.
	Null, Filled bool
	// Unique: an index of the column alone, over all rows, is unique.
	Unique bool
}

// Prove returns an error that wraps storage.ErrNotStorable and names each column that is
// not as expected. A column that the store does not know must need no value.
func (t *Table) Prove(name string, found []Found) error {
	if len(found) == 0 {
		return fmt.Errorf("%w: table %s is missing, or this role cannot see its columns; if it was dropped, drop %[2]s_migrations too, and migrate again", storage.ErrNotStorable, name)
	}
	var faults []string
	for _, want := range t.Columns {
		at := slices.IndexFunc(found, func(f Found) bool { return f.Name == want.Name })
		if at < 0 {
			faults = append(faults, fmt.Sprintf("column %s: found none, expected %s", want.Name, want))
			continue
		}
		if fault := t.fault(want, found[at]); fault != "" {
			faults = append(faults, fmt.Sprintf("column %s: %s", want.Name, fault))
		}
	}
	for _, f := range found {
		known := slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == f.Name })
		if !known && !f.Null && !f.Filled {
			faults = append(faults, fmt.Sprintf("column %s: found %s NOT NULL, expected none, or one with a default", f.Name, f.Type))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: table %s: %s", storage.ErrNotStorable, name, strings.Join(faults, "; "))
	}
	return nil
}

// fault returns what is wrong with a column, or "".
func (t *Table) fault(want Column, found Found) string {
	switch {
	case !slices.Contains(want.Types, found.Type):
		return fmt.Sprintf("found %s, expected %s", found.Type, want)
	case want.Null && !found.Null:
		return fmt.Sprintf("found %s NOT NULL, expected %s", found.Type, want)
	case want.Name == t.Key && !found.Unique:
		return "found no unique index of this column alone, expected the primary key"
	default:
		return ""
	}
}

// String is the column's type in words.
func (c Column) String() string {
	if c.Null {
		return c.Types[0] + " that takes null"
	}
	return c.Types[0]
}

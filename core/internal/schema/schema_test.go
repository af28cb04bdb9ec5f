package schema_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/internal/schema"
	"github.com/oncekey/oncekey/core/storage"
)

// Case 97: each fault is named, with what was found and what was expected.
func TestProve(t *testing.T) {
	t.Parallel()
	table := schema.Table{Key: "id", Columns: []schema.Column{
		{Name: "id", Types: []string{"varchar(64)", "text"}}, {Name: "body", Types: []string{"blob"}, Null: true},
	}}
	good := []schema.Found{{Name: "id", Type: "text", Unique: true}, {Name: "body", Type: "blob", Null: true}}
	for want, change := range map[string]func(found []schema.Found) []schema.Found{
		"": func(found []schema.Found) []schema.Found {
			return append(found, schema.Found{Name: "new", Type: "int", Null: true}, schema.Found{Name: "newer", Type: "int", Filled: true})
		},
		"table t is missing, or this role cannot see its columns; if it was dropped, drop t_migrations too": func([]schema.Found) []schema.Found { return nil },
		"table t: column body: found none, expected blob that takes null":                                   func(found []schema.Found) []schema.Found { return found[:1] },
		"column body: found text, expected blob that takes null": func(found []schema.Found) []schema.Found {
			found[1].Type = "text"
			return found
		},
		"column body: found blob NOT NULL, expected blob that takes null": func(found []schema.Found) []schema.Found {
			found[1].Null = false
			return found
		},
		"column id: found no unique index": func(found []schema.Found) []schema.Found { found[0].Unique = false; return found },
		"column more: found int NOT NULL, expected none": func(found []schema.Found) []schema.Found {
			return append(found, schema.Found{Name: "more", Type: "int"})
		},
	} {
		err := table.Prove("t", change(slices.Clone(good)))
		if want == "" && err == nil {
			continue
		}
		if !errors.Is(err, storage.ErrNotStorable) || !strings.Contains(err.Error(), want) || want == "" {
			t.Errorf("Prove returned %v, want %q", err, want)
		}
	}
}

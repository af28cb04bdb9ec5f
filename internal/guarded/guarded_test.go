package guarded_test

import (
	"context"
	"testing"

	"github.com/oncekey/oncekey/internal/guarded"
	"github.com/oncekey/oncekey/internal/testkit"
)

type key struct{}

// own stands for a router's own context type, which passes on only its own values.
type own struct {
	context.Context
	values map[any]any
}

func (o own) Value(key any) any { return o.values[key] }

// Case 81: the values of a run are found behind a context type that hides them.
func TestValue(t *testing.T) {
	t.Parallel()
	run := context.WithValue(t.Context(), key{}, "run")
	published := own{t.Context(), map[any]any{guarded.ContextKey: run}}
	type row struct {
		ctx  context.Context
		want any
	}
	testkit.Each(t, map[string]row{
		"nil":                 {nil, nil},
		"no run":              {t.Context(), nil},
		"the run":             {run, "run"},
		"published":           {published, "run"},
		"derived":             {context.WithValue(published, "other", 1), "run"}, //nolint:revive,staticcheck // gin's keys are strings
		"an inner value":      {context.WithValue(published, key{}, "inner"), "inner"},
		"not published":       {own{t.Context(), nil}, nil},
		"published after end": {own{t.Context(), map[any]any{guarded.ContextKey: nil}}, nil},
	}, func(t *testing.T, row row) {
		testkit.Equal(t, guarded.Value(row.ctx, key{}), row.want, "guarded.Value(row.ctx, key{})")
	})
}

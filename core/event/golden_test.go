package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// Alerts and dashboards compare results: each of a released version stays.
func TestGoldenResults(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, parser.SkipObjectResolution)
	testkit.Must(t, err)
	var today []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is {
			return true
		}
		if kind, _ := spec.Type.(*ast.Ident); kind != nil && kind.Name == "Result" {
			value, _ := spec.Values[0].(*ast.BasicLit)
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Error(err)
			}
			today = append(today, text)
		}
		return true
	})
	golden.Names(t, "results.jsonl", today)
}

// Searches in logs name attributes: each of a released version stays.
func TestGoldenAttributes(t *testing.T) {
	t.Parallel()
	var line bytes.Buffer
	subject := About("POST", "/payments", "alice", "key", "pod-1")
	Log(slog.New(slog.NewJSONHandler(&line, &slog.HandlerOptions{Level: slog.LevelDebug}))).Observe(t.Context(), Event{
		Result: KeyReused, Route: "/payments", Code: "key_reused", Status: 422, Record: "record", Attempt: 2, Holder: "pod-2", Panicked: true, Trace: "trace",
		Duration: time.Second, StoreLatency: time.Second, Operator: "m.ortiz", Reason: "reason", Differs: []string{"amount"}, Others: 1, Missing: 1, Observed: true,
		Err: errors.New("error"), Subject: &subject,
	})
	var logged map[string]any
	testkit.Must(t, json.Unmarshal(line.Bytes(), &logged))
	golden.Names(t, "attributes.jsonl", slices.Collect(maps.Keys(logged)))
}

// An event without an error has no text, and the end of a context has its own.
func TestErrorText(t *testing.T) {
	t.Parallel()
	none, ended := Event{Result: Failed}, Event{Result: Failed, Err: context.Canceled}
	if none.ErrorText() != "" || ended.ErrorText() != "context canceled" {
		t.Errorf("got %q and %q", none.ErrorText(), ended.ErrorText())
	}
	// A RecoverFunc asks a provider about the client's key.
	asked := Event{Result: RecoverError, Err: &url.Error{Op: "Get", URL: "https://bank.example/charges?key=order-41", Err: context.Canceled}}
	testkit.Equal(t, asked.ErrorText(), "*url.Error: context canceled", "the error of a RecoverFunc is shown as")
}

func TestLogOfANilOption(t *testing.T) {
	t.Parallel()
	testkit.PanicsWith(t, func() { Log(nil, nil) }, "event: option 1 of Log is nil: leave it out")
}

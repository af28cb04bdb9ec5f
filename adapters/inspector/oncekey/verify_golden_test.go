package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// asDocumented runs a command line against a server, and returns the text of a golden file. The server has the address of
// the documentation, and the file of the body is in the current directory.
func asDocumented(t *testing.T, server *httptest.Server, args ...string) (text string, code int) {
	t.Helper()
	const host, body = "https://staging.example.com", "@testdata/verify/pay.json"
	var out bytes.Buffer
	typed := make([]string, len(args))
	for i, arg := range args {
		typed[i] = strings.Replace(strings.Replace(arg, host, server.URL, 1), "@pay.json", body, 1)
	}
	code = run(t.Context(), typed, world{strings.NewReader(""), &out, &out, nil})
	return "$ oncekey " + quoted(args) + "\n" + strings.ReplaceAll(out.String(), server.URL, host), code
}

// The output of verify for a server with the default problems, which docs/cli.md shows, and for one of each protocol.
func TestVerifyOutput(t *testing.T) {
	t.Parallel()
	const payments = "https://staging.example.com/payments"
	all := []string{
		"verify", "--i-own-this-server", "--header", "Authorization: Bearer test", "--body", "@pay.json", "--concurrency", "4", "--timeout", "40s",
		"--effects", "https://staging.example.com/effects",
	}
	for name, row := range map[string]struct {
		of   string
		args []string
		code int
	}{
		"verify":          {"draft", []string{"--rules", "draft,ucp", payments}, exitNothing},
		"verify/draft":    {"draft", []string{payments}, exitDone},
		"verify/acp":      {"acp", []string{"--rules", "acp", payments}, exitDone},
		"verify/ucp":      {"ucp", []string{"--rules", "ucp", payments}, exitDone},
		"verify/stripe":   {"stripe", []string{"--rules", "stripe", payments}, exitDone},
		"verify/json":     {"ucp", []string{"--rules", "ucp", "-o", "json", payments}, exitDone},
		"verify/ndjson":   {"ucp", []string{"--rules", "ucp", "-o", "ndjson", payments}, exitDone},
		"verify-not-mine": {"draft", nil, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, server := openBank(t, dialects[row.of](), nil)
			args := slices.Concat(all, row.args)
			if row.args == nil {
				args = []string{"verify", "--body", "@pay.json", payments}
			}
			text, code := asDocumented(t, server, args...)
			golden(t, name, text)
			testkit.Equal(t, code, row.code, "the exit code")
		})
	}
}

// The program to copy breaks no rule of the draft.
func TestVerifyTheExample(t *testing.T) {
	t.Parallel()
	args := []string{"verify", "--i-own-this-server", "--header", "Authorization: Bearer alice", "--timeout", "40s"}
	body := `{"order_id":"o-1","amount":4200,"currency":"EUR","card":"tok_ok"}`
	var out bytes.Buffer
	code := run(t.Context(), append(args, "--body", body, startExample(t)+"/payments"), world{strings.NewReader(""), &out, &out, nil})
	if text := out.String(); code != exitDone || !strings.Contains(text, "\ndraft   holds ") || strings.Contains(text, "BROKEN   MUST    draft") {
		t.Errorf("exit code %d and\n%s", code, text)
	}
}

// startExample builds the program, runs it until the test ends, and returns its URL.
func startExample(t *testing.T) string {
	t.Helper()
	program := exec.CommandContext(context.WithoutCancel(t.Context()), serverproc.Build(t, "../../../examples", "./payments"), "-addr", "127.0.0.1:0")
	return serverproc.Start(t, "payments", program).AwaitLine(regexp.MustCompile(`^listening on (\S+)$`))[1]
}

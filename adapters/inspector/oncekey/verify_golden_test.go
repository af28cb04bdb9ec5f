package main

import (
	"bytes"
	"context"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
			if code != row.code {
				t.Errorf("exit code %d, want %d", code, row.code)
			}
		})
	}
}

// The shortest example breaks no rule of the draft.
func TestVerifyTheExample(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go tool: ", err)
	}
	binary := filepath.Join(t.TempDir(), "chi")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./chi")
	build.Dir = "../../../examples"
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	args := []string{"verify", "--i-own-this-server", "--header", "Authorization: Basic YWxpY2U6c2VjcmV0", "--body", `{"amount":42,"currency":"EUR"}`, "--timeout", "40s"}
	for range 5 { // another program may take the port in between
		address := startExample(t, binary)
		if text, code := untilServed(t, append(args, "http://"+address+"/payments")); code != exitAway {
			if code != exitDone || !strings.Contains(text, "\ndraft   holds ") || strings.Contains(text, "BROKEN   MUST    draft") {
				t.Errorf("exit code %d and\n%s", code, text)
			}
			return
		}
	}
	t.Fatal("the example serves on none of 5 ports")
}

// startExample runs the program until the test ends, on a port that was free.
func startExample(t *testing.T, binary string) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	listener.Close()
	program := exec.CommandContext(context.WithoutCancel(t.Context()), binary)
	program.Env = append(os.Environ(), "ADDR="+address)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait() // by the signal
	})
	return address
}

// untilServed repeats a command line while nothing listens.
func untilServed(t *testing.T, args []string) (text string, code int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(20 * time.Millisecond) {
		var out bytes.Buffer
		code = run(t.Context(), args, world{strings.NewReader(""), &out, &out, nil})
		if code != exitAway || time.Now().After(deadline) {
			return out.String(), code
		}
	}
}

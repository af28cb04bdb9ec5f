package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Wrong flags are named, and no request is sent.
func TestVerifyWrongUse(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	file := filepath.Join(t.TempDir(), "pay.json")
	testkit.Must(t, os.WriteFile(file, []byte(`{"a":true}`), 0o600))
	for _, row := range []struct {
		args []string
		says string
	}{
		{[]string{"--body", "{}"}, "--i-own-this-server"},
		{[]string{"--i-own-this-server", "--body", "{}"}, "give --other-body"},
		{[]string{"--i-own-this-server", "--body", "@" + file}, "give --other-body"},
		{[]string{"--i-own-this-server", "--body", "@" + file, "--other-body", `{"a":true}`}, "give --other-body"},
		{[]string{"--i-own-this-server", "--body", "@" + file + ".missing"}, "--body: open"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--method", "GET"}, "--method"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--rules", "rfc"}, "--rules"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--concurrency", "51"}, "--concurrency is 51: give from 2 to 50"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--concurrency", "1"}, "--concurrency is 1"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--max-requests", "0"}, "--max-requests is 0"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--total-timeout", "0s"}, "--total-timeout is 0s"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--timeout=-1s"}, "--timeout -1s"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--key-header", "a b"}, `--key-header is "a b"`},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--header", "Secret"}, "--header: give NAME: VALUE"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--header", "A: Secret\nB: c"}, "--header: give NAME: VALUE"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--header", "idempotency-key: k"}, "leave it out"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--other-url", "/x"}, "--other-url: give an http or https URL"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--effects", "ftp://Secret@a/x"}, "--effects: give an http or https URL"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--effects-path", "a"}, "give --effects or --effects-command"},
		{[]string{"--i-own-this-server", "--body", `{"a":1}`, "--effects", "http://a/", "--effects-command", "b"}, "--effects"},
	} {
		text, code := said(t, append(append([]string{"verify"}, row.args...), "http://127.0.0.1:1/payments")...)
		if code != exitUsage || !strings.Contains(text, row.says) || strings.Contains(text, "Secret") {
			t.Errorf("%q: exit code %d and %s, want %d and %s", row.args, code, text, exitUsage, row.says)
		}
	}
	if text, code := said(t, "verify", "--i-own-this-server", "--body", `{"a":1}`, "http:/payments"); code != exitUsage || !strings.Contains(text, "the URL: give an http") {
		t.Errorf("exit code %d and %s", code, text)
	}
}

// A count of effects that cannot be had ends the command before the first request.
func TestVerifyCountFails(t *testing.T) {
	t.Parallel()
	b, server := openBank(t, dialects["draft"](), nil)
	for _, row := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--effects", "http://127.0.0.1:1/"}, exitUnreachable, "the count of effects: the server does not respond: dial"},
		{[]string{"--effects", server.URL + "/nowhere"}, exitNothing, "the URL of effects responds 404"},
		{[]string{"--effects-command", "echo none"}, exitNothing, "no number and no JSON"},
	} {
		if stdout, stderr, code := b.said(t, server, row.args...); code != row.code || !strings.Contains(stderr, row.says) || stdout != "" || b.requests > 0 {
			t.Errorf("%s: exit code %d after %d requests, and %s%s; want %d and %s", row.args, code, b.requests, stdout, stderr, row.code, row.says)
		}
	}
}

// A server that takes only keys in quotes, as the draft has them, is looked at with such keys.
func TestVerifyQuotedKeys(t *testing.T) {
	t.Parallel()
	unquoted := func(r *http.Request) bool {
		return !noKey(r) && !strings.HasPrefix(r.Header.Get("Idempotency-Key"), `"`)
	}
	b, server := openBank(t, dialects["acp"](), refuseIf(unquoted, http.StatusBadRequest))
	if _, stderr, code := b.said(t, server); code != exitNothing || !strings.Contains(stderr, "this one gets 400") {
		t.Errorf("bare keys: exit code %d and %s", code, stderr)
	}
	found, code := b.verified(t, server, append(withEverything(server, "acp"), "--quote-keys")...)
	if broken := found.rulesWith("broken"); code != exitDone || len(broken) > 0 {
		t.Errorf("exit code %d, broken are %q", code, broken)
	}
}

// The key may have another header, the URL a sign-in, and a command may count the effects.
func TestVerifyOtherSettings(t *testing.T) {
	t.Parallel()
	b, server := openBank(t, dialects["draft"](), func(_ *bank, guarded, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "alice" || password != "p w" || r.Method != http.MethodPut && r.Method != http.MethodGet {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			r.Method = http.MethodPost
			r.Header.Set("Idempotency-Key", r.Header.Get("X-Key"))
			if r.Header.Get("X-Key") == "" {
				r.Header.Del("Idempotency-Key")
			}
			guarded.ServeHTTP(w, r)
		})
	})
	stdout, stderr, code := verifyAt(t, strings.Replace(server.URL, "://", "://alice:p%20w@", 1)+"/payments", "--method", "PUT", "--key-header", "X-Key",
		"--header", "User-Agent: mine", "--effects-command", "echo '{\"n\":[7]}'", "--effects-path", "n.0", "--rules", "draft")
	if code != exitDone || !strings.Contains(stdout, "kept     SHOULD  draft.retry") || !strings.Contains(stdout, "0 effects were counted") || b.effects < 10 {
		t.Errorf("exit code %d, %d effects and\n%s%s", code, b.effects, stdout, stderr)
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// raw is a server that speaks to a connection after a request, and closes it.
func raw(t *testing.T, speak func(net.Conn)) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					speak(conn)
				}
			}()
		}
	}()
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String()
}

// endlessly writes a text until the client is gone.
func endlessly(begin, text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, err := io.WriteString(conn, begin)
		for err == nil {
			_, err = io.WriteString(conn, text)
		}
	}
}

// A server that does not behave ends the command with a reason, within the limits.
func TestVerifyHostileServers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		speak func(net.Conn)
		code  int
		says  string
	}{
		"never responds":  {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, exitUnreachable, "no whole response within 500ms"},
		"closes at once":  {func(net.Conn) {}, exitUnreachable, "EOF"},
		"garbage":         {func(conn net.Conn) { _, _ = io.WriteString(conn, hostile+"\r\n\r\n") }, exitUnreachable, "malformed HTTP"},
		"endless garbage": {endlessly("", strings.Repeat("x", 1000)), exitUnreachable, "does not respond"},
		"endless header":  {endlessly("HTTP/1.1 201 Created\r\n", "X-A: "+strings.Repeat("x", 1000)+"\r\n"), exitUnreachable, "exceeded"},
		"huge header":     {endlessly("HTTP/1.1 201 Created\r\nX-A: ", strings.Repeat("x", 1000)), exitUnreachable, "exceeded"},
		"endless 1xx":     {endlessly("", "HTTP/1.1 103 Early Hints\r\n\r\n"), exitUnreachable, "exceeded"},
		"half a body": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nab")
		}, exitUnreachable, "201, then the body: unexpected EOF"},
		"endless and slow": {func(conn net.Conn) {
			_, err := io.WriteString(conn, "HTTP/1.1 201 Created\r\n\r\n")
			for err == nil {
				<-time.After(50 * time.Millisecond)
				_, err = io.WriteString(conn, "x")
			}
		}, exitUnreachable, "201, then the body: no whole response within 500ms"},
		"a redirect": {func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 308 Permanent Redirect\r\nLocation: http://evil/\u202ex\r\nContent-Length: 0\r\n\r\n")
		}, exitNothing, `this one gets 308 to http://evil/\u202ex`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			timeout := "40s"
			if strings.Contains(row.says, "500ms") {
				timeout = "500ms"
			}
			stdout, stderr, code := verifyAt(t, raw(t, row.speak), "--timeout", timeout)
			wantSafe(t, name, stdout, stderr, "table")
			if code != row.code || !strings.Contains(stderr, row.says) || stdout != "" {
				t.Errorf("exit code %d and %s%s, want %d and %s", code, stdout, stderr, row.code, row.says)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// verifyAt runs verify without any count of effects.
func verifyAt(t *testing.T, address string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	all := append([]string{"verify", "--i-own-this-server", "--body", payment, "--concurrency", "4", "--timeout", "40s"}, args...)
	code = run(t.Context(), append(all, address), world{strings.NewReader(""), &out, &errs, nil})
	return out.String(), errs.String(), code
}

// An endless body is cut off, and the rules are judged by its begin.
func TestVerifyEndlessBody(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := verifyAt(t, raw(t, endlessly("HTTP/1.1 201 Created\r\n\r\n", strings.Repeat("x", 10_000))))
	if code == exitUnreachable || !strings.Contains(stdout, "201, then 201 with an equal body") {
		t.Errorf("exit code %d and\n%s%s", code, stdout, stderr)
	}
}

// The text of a server cannot control the terminal, in any format, and shows no secret of the request.
func TestVerifyShowsNoSecret(t *testing.T) {
	t.Parallel()
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:hunter2"))
	var number atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		text := fmt.Sprintf("%s %s %s %s:%s %d", r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Header.Get("Cookie"), user, password, number.Add(1))
		w.Header().Set("Idempotency-Key", text+"\u202e\u009b")
		w.Header().Set("Retry-After", text)
		w.Header().Set("Idempotent-Replayed", text)
		status := http.StatusCreated
		if probeOf(r) != "equal-retry" && number.Load()%3 == 0 {
			status = http.StatusConflict
		}
		w.WriteHeader(status)
		// The last secret is cut off in the middle: it is hidden before that.
		_, _ = io.WriteString(w, strings.Repeat("y", 70)+" sk_live_4242424242 "+text+hostile)
	}))
	t.Cleanup(server.Close)
	for _, format := range []string{"table", "json", "ndjson"} {
		args := []string{"--header", "X-Api-Key: sk_live_4242424242", "--header", "Authorization: " + basic, "--header", "Cookie: session=s3cr3tc00kie; b=c", "-o", format}
		stdout, stderr, _ := verifyAt(t, server.URL, args...)
		if format != "table" {
			wantSafe(t, format, stdout, stderr, format)
		} else if found := forbidden(stdout + stderr); found != "" {
			t.Errorf("the table has %s", found)
		}
		for _, secret := range []string{"sk_live", "hunter2", basic[6:], "s3cr3tc00kie"} {
			if strings.Contains(stdout+stderr, secret) {
				t.Errorf("%s shows %s:\n%s%s", format, secret, stdout, stderr)
			}
		}
		if !strings.Contains(stdout, "y (hidden)") {
			t.Errorf("%s shows no text of the server:\n%s%s", format, stdout, stderr)
		}
	}
}

// Without a count of effects, a rule is broken only by the evidence of the responses.
func TestVerifyWithoutEffects(t *testing.T) {
	t.Parallel()
	type row struct {
		mistake  mistake
		constant bool
		found    string // of the rule draft.once
		says     string
	}
	testkit.Each(t, map[string]row{
		"a right server": {nil, false, "kept", "one response, and replays of it"},
		"marks every response, and ignores keys": {func(b *bank, guarded, bare http.Handler) http.Handler {
			return changed(func(_ *bank, _ *http.Request, response *httptest.ResponseRecorder) {
				response.Header().Set("Idempotent-Replayed", "true")
			})(b, bare, nil)
		}, false, "broken", "different responses"},
		"without marks":                     {withoutHeader("X-Idempotent-Replay"), false, "kept", "one response"},
		"constant bodies":                   {nil, true, "kept", "one response"}, // duplicates are refused
		"runs duplicates":                   {bareIf(in("duplicates")), false, "broken", "different responses, none marked as a replay"},
		"runs duplicates, constant bodies":  {bareIf(in("duplicates")), true, "unknown", "a count of effects would tell"},
		"ignores keys, and constant bodies": {bareIf(always), true, "unknown", "a count of effects would tell"},
	}, func(t *testing.T, row row) {
		b, server := openBank(t, dialects["draft"](), row.mistake)
		b.constant = row.constant
		found, _ := b.verified(t, server)
		for _, one := range found.Protocols[0].Rules {
			if one.Rule == "draft.once" && (string(one.Result) != row.found || !strings.Contains(one.Evidence, row.says)) {
				t.Errorf("the rule is %s: %s, want %s: %s", one.Result, one.Evidence, row.found, row.says)
			}
		}
	})
}

// verify stops at its limits, says so, and shows its observations so far.
func TestVerifyStops(t *testing.T) {
	t.Parallel()
	b, server := openBank(t, dialects["draft"](), nil)
	stdout, stderr, code := b.said(t, server, "--max-requests", "9", "--effects", server.URL+"/effects")
	if code != exitNothing || !strings.Contains(stderr, "stopped: the limit of requests is reached") || !strings.Contains(stdout, "skipped: the limit of requests is reached") || b.requests > 9 {
		t.Errorf("exit code %d after %d requests, and\n%s%s", code, b.requests, stdout, stderr)
	}
	never := raw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	stdout, stderr, code = verifyAt(t, never, "--total-timeout", "300ms")
	if code != exitNothing || !strings.Contains(stderr, "stopped: the limit of time is reached (--max-requests 100, --total-timeout 300ms)") || !strings.Contains(stdout, "unknown  MUST") {
		t.Errorf("exit code %d and\n%s%s", code, stdout, stderr)
	}
	for _, stop := range []struct {
		limit, says string
		signalAfter time.Duration
	}{{"1s", "the limit of time is reached", 10 * time.Minute}, {"10m", "interrupted", time.Second}} {
		slow, server := openBank(t, dialects["draft"](), func(_ *bank, guarded, _ http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if probeOf(r) == "null-member" {
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
				}
				guarded.ServeHTTP(w, r)
			})
		})
		ctx, signal := context.WithCancel(t.Context())
		timer := time.AfterFunc(stop.signalAfter, signal)
		var out, errs strings.Builder
		code := run(ctx, []string{"verify", "--i-own-this-server", "--header", "Authorization: a", "--body", payment, "--total-timeout", stop.limit, "--timeout", "9m", server.URL + "/payments"}, world{nil, &out, &errs, nil})
		timer.Stop()
		signal()
		if code != exitNothing || !strings.Contains(errs.String(), "stopped: "+stop.says) || !strings.Contains(out.String(), "equal-retry") {
			t.Errorf("exit code %d after %d requests, and\n%s%s", code, slow.requests, &out, &errs)
		}
	}
}

// A server that does not take a payload says nothing about keys by refusing it.
func TestVerifyStrictServer(t *testing.T) {
	t.Parallel()
	b, server := openBank(t, dialects["acp"](), func(_ *bank, guarded, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("null")) || bytes.Contains(body, []byte("4201")) || bytes.Contains(body, []byte(".0")) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			guarded.ServeHTTP(w, r)
		})
	})
	found, _ := b.verified(t, server, withEverything(server, "acp")...)
	unknown := found.rulesWith("unknown")
	for _, id := range []string{"acp.null-differs", "acp.number-spelling", "acp.other-body", "acp.other-body-fails"} {
		if !slices.Contains(unknown, id) {
			t.Errorf("%s is judged by a refusal that has nothing to do with keys", id)
		}
	}
	if !slices.Contains(found.rulesWith("kept"), "acp.member-order") {
		t.Error("the order of members is not judged")
	}
}

// No text of the command line controls the terminal.
func TestVerifyHostileFlags(t *testing.T) {
	t.Parallel()
	const body = `{"a":1}`
	for _, args := range [][]string{
		{"verify", hostile},
		{"verify", "--i-own-this-server", hostile},
		{"verify", "--i-own-this-server", "--body", "@" + hostile, "http://127.0.0.1:1/"},
		{"verify", "--i-own-this-server", "--body", body, "--header", hostile, "http://127.0.0.1:1/"},
		{"verify", "--i-own-this-server", "--body", body, "--header", "A: " + hostile, "http://127.0.0.1:1/"},
		{"verify", "--i-own-this-server", "--body", body, "--key-header", hostile, "http://127.0.0.1:1/"},
		{"verify", "--i-own-this-server", "--body", body, "http://127.0.0.1:1/" + url.PathEscape(hostile)},
		{"verify", "--i-own-this-server", "--body", body, "--effects-command", "printf '\\033[2J'", "http://127.0.0.1:1/"},
		{"verify", "--i-own-this-server", "--body", body, "--effects-command", "echo 1", "--effects-path", hostile, "http://127.0.0.1:1/"},
	} {
		var out, errs strings.Builder
		code := run(t.Context(), args, world{nil, &out, &errs, nil})
		wantSafe(t, fmt.Sprintf("%q", args), out.String(), errs.String(), "table")
		if code == exitDone || errs.String() == "" {
			t.Errorf("%q: exit code %d and %q", args, code, &errs)
		}
	}
}

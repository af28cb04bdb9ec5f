package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // drops the service's log
	goleak.VerifyTestMain(m)
}

// The program listens, takes a payment, exports its metrics, and ends after a signal.
func TestProgram(t *testing.T) {
	t.Parallel()
	ctx, signal := context.WithCancel(context.WithoutCancel(t.Context()))
	defer signal()
	stdout, output := io.Pipe()
	exited := make(chan int, 1)
	var stderr bytes.Buffer // read it only after exited
	go func() {
		exited <- run(ctx, []string{"-addr", "127.0.0.1:0"}, output, &stderr)
		output.Close()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	match := regexp.MustCompile(`^listening on (http://127\.0\.0\.1:\d+)\n$`).FindStringSubmatch(line)
	if match == nil {
		t.Fatalf("the first line is %q (%v)", line, err)
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 2 {
		testkit.Equal(t, send(t, client, http.MethodPost, match[1]+"/payments", http.StatusCreated), "payment 1\n", "the response")
	}
	metrics := send(t, client, http.MethodGet, match[1]+"/metrics", http.StatusOK)
	for _, sample := range []string{`idempotency_result="execute"`, `idempotency_result="replay"`} {
		if !regexp.MustCompile(`(?m)^idempotency_requests_total\{.*` + sample + `.*\} 1$`).MatchString(metrics) {
			t.Errorf("no sample of %s is 1 in\n%s", sample, metrics)
		}
	}

	signal()
	if code := <-exited; code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, want 0; stderr: %s", code, &stderr)
	}
	if rest, _ := io.ReadAll(stdout); len(rest) > 0 {
		t.Errorf("more than one line on stdout: %q", rest)
	}
}

func send(t *testing.T, client *http.Client, method, url string, status int) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("amount=42"))
	testkit.Must(t, err)
	r.Header.Set(core.KeyHeader, "key-1")
	response, err := client.Do(r)
	testkit.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		t.Errorf("%s %s: %d %s (%v), want %d", method, url, response.StatusCode, body, err, status)
	}
	return string(body)
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	for _, row := range []struct {
		args string
		code int
		says string
	}{
		{"-h", 0, "-addr"},
		{"-port 80", 2, "-port"},
		{"now", 2, `"now"`},
		{"-addr " + taken.Listener.Addr().String(), 1, taken.Listener.Addr().String()},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(row.args), &stdout, &stderr)
		if code != row.code || stdout.Len() > 0 || !strings.Contains(stderr.String(), row.says) {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want code %d and %s", row.args, code, &stdout, &stderr, row.code, row.says)
		}
	}
}

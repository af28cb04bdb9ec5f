package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"
)

// A process with this variable is a merchant that stops at a point: see killed_test.go.
const pointVariable = "MERCHANT_TEST_POINT"

func TestMain(m *testing.M) {
	if point, is := os.LookupEnv(pointVariable); is {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, stoppingAt(point)))
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}

func TestWrongFlagsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, flag, value, right string }{
		{"-router echo", "-router", `"echo"`, "chi or gin"},
		{"-store redis", "-store", `"redis"`, "memory or sqlite"},
		{"-lock-ttl 30", "-lock-ttl", `"30"`, ""},
		{"-lock-ttl 1ms", "-lock-ttl", `"1ms"`, "from 1s to 1h"},
		{"chi", "", `"chi"`, "everything is a flag"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(test.args), &stdout, &stderr, open)
		message := stderr.String()
		if code != 2 || stdout.Len() > 0 || strings.Count(message, "\n") != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want code 2 and one line on stderr", test.args, code, &stdout, message)
		}
		for _, part := range []string{test.flag, test.value, test.right} {
			if !strings.Contains(message, part) {
				t.Errorf("%s: %q does not name %s", test.args, message, part)
			}
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr, open); code != 0 || stderr.Len() > 0 {
		t.Errorf("code %d, stderr %q, want neither", code, &stderr)
	}
	for _, name := range []string{"-addr", "-router", "-store", "-file", "-lock-ttl"} {
		if !strings.Contains(stdout.String(), "  "+name+" ") {
			t.Errorf("%s is not listed in\n%s", name, &stdout)
		}
	}
}

func TestFileThatCannotBeOpenedIsNamed(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	missing := t.TempDir() + "/no such folder/merchant.db"
	code := run(t.Context(), []string{"-store", "sqlite", "-file", missing}, &stdout, &stderr, open)
	if code != 1 || !strings.Contains(stderr.String(), missing) {
		t.Errorf("code %d, stderr %q, want code 1 and %s", code, &stderr, missing)
	}
}

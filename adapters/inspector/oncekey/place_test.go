package main

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// The name of the user is no secret: the doctor's GRANT names it.
func TestOnlyThePasswordIsHidden(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"postgres://shop:p%40ss@db/shop", "redis://shop:p%40ss@db/0", "host=db user=shop password=p@ss"} {
		if got := replacing(secretsOf(address))(`GRANT SELECT ON shop.records TO "shop", p@ss`); got != `GRANT SELECT ON shop.records TO "shop", (hidden)` {
			t.Errorf("%s: %s", address, got)
		}
	}
	// A server may send the sign-in back as it has got it.
	if got := replacing(secretsOf("https://shop:p%40ss@api/payments"))("no such user: Basic c2hvcDpwQHNz"); got != "no such user: Basic (hidden)" {
		t.Error(got)
	}
}

// A place that a flag names is the place, whatever the variables name.
func TestFlagsBeatVariables(t *testing.T) {
	s := openShop(t)
	s.post("order-41", `{"amount":4200}`)
	server := httptest.NewServer(s.mux)
	t.Cleanup(server.Close)
	page := strings.Replace(server.URL, "http://", "http://ops:secret@", 1) + "/ops/idempotency"
	const nobody = "127.0.0.1:1"
	t.Setenv("ONCEKEY_REDIS", "redis://"+nobody)
	t.Setenv("ONCEKEY_POSTGRES", "postgres://"+nobody+"/shop")
	t.Setenv("ONCEKEY_TOKEN", "of another page")
	if text, code := said(t, "show", "6fd4993b", "--url", page); code != exitDone || !strings.Contains(text, "It ran once") {
		t.Errorf("a page beside the variables of a store: exit code %d and %s", code, text)
	}
	t.Setenv("ONCEKEY_URL", page)
	if text, code := said(t, "list", "--redis", "redis://"+nobody, "--timeout", "5s"); code != exitUnreachable {
		t.Errorf("a store beside the variable of a page: exit code %d and %s", code, text)
	}
	if text, code := said(t, "list"); code != exitUsage || !strings.Contains(text, "ONCEKEY_URL") {
		t.Errorf("the variables of a page and of a store: exit code %d and %s", code, text)
	}
}

// A database that accepts a connection and never responds keeps no command waiting for longer than --timeout.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	testkit.Must(t, err)
	defer silent.Close()
	for _, args := range [][]string{{"sweep"}, {"migrate"}, {"migrate", "status"}, {"list"}} {
		begin := time.Now()
		text, code := said(t, append(args, "--timeout", "200ms", "--postgres", "postgres://shop:pw@"+silent.Addr().String()+"/shop")...)
		if took := time.Since(begin); code != exitUnreachable || took > 10*time.Second || !strings.Contains(text, "records") && !strings.Contains(text, "pgstore") {
			t.Errorf("%s: exit code %d after %s: %s", args, code, took, text)
		}
	}
}

// No part of a password is in the fault of an address, whichever characters it has.
func TestFaultsHaveNoPassword(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--redis", "redis://:Secret/Secret@host:6379/0"},
		{"--redis", "redis://shop:Secret#Secret@host:6379/0"},
		{"--redis", "redis://:Sec%rSecret@host:6379/0"},
		{"--redis", "redis://:12/Secret@host:6379/0"},
		{"--redis", "redis://:12/Secret/x@host:6379/0"},
		{"--redis", "redis://:12?Secret=x@host:6379/0"},
		{"--redis", "redis://:a@b/Secret@host:6379/0"},
		{"--redis", "redis://:a@b/Secret@host:6379/0?master_name=shop"},
		{"--redis", "redis://:Secret"},
		{"--postgres", "host=db password = Secret sslmode=some"},
		{"--postgres", `host=db password='it\'s Secret' sslmode=some`},
		{"--postgres", "host=db PASSWORD=Secret sslmode=some"},
		{"--postgres", "postgres://shop:Secret/Secret@host/db"},
		{"--url", "http://shop:Secret/Secret@host/"},
		// Case 92: quoted in the ways of each format, or as a parameter.
		{"--redis", "redis://shop:12/Secret@127.0.0.1:1/0"},
		{"--redis", "redis://:p@127.0.0.1:1/0?password=Secret"},
		{"--redis", "redis://:p@127.0.0.1:1/Secret"},
		{"--redis", "redis://:p@127.0.0.1:1?read_timeout=Secret"},
		{"--redis", "redis://:p@127.0.0.1:Secret"},
		{"--redis", "shop:Secret@127.0.0.1:1"},
		{"--postgres", "postgres://shop:12/Secret@127.0.0.1/db"},
		{"--postgres", "postgres://shop:12/Secret/x@127.0.0.1/db"},
		{"--postgres", "postgres://shop:12?Secret=x@127.0.0.1/db"},
		{"--postgres", "postgres://shop:12#Secret@127.0.0.1/db"},
		{"--postgres", "postgres://shop:a@b/Secret@127.0.0.1:1/db"},
		{"--postgres", "postgres://shop:Sec%rSecret@127.0.0.1:1/db"},
		{"--postgres", "postgres://shop:p@127.0.0.1:Secret/db"},
		{"--postgres", "postgres://shop:p@127.0.0.1:1/db?sslmode=Secret"},
		{"--postgres", "postgres://127.0.0.1:1/db?password=Secret&sslmode=some"},
		{"--postgres", "postgres://127.0.0.1:1/db?sslkey=/Secret&sslcert=/x&sslpassword=Secret"},
		{"--postgres", "postgres://127.0.0.1:1/db?connect_timeout=Secret"},
		{"--postgres", "host=127.0.0.1 port=1 password=two Secret"},
		{"--postgres", "host=127.0.0.1 port=1 password=my Secret sslmode=disable"},
		{"--postgres", "host=127.0.0.1 port=1 password='two Secret"},
		{"--postgres", `host=127.0.0.1 port=1 password=it\'s' Secret`},
		{"--postgres", `host=127.0.0.1 port=Secret password=Secret`},
		{"--postgres", "shop:Secret@tcp(127.0.0.1:1)/db"},
		{"--url", "http://shop:12/Secret@127.0.0.1:1/"},
		{"--url", "http://127.0.0.1:1/?token=Secret"},
		{"--url", "ftp://Secret@127.0.0.1:1/"},
	} {
		text, code := said(t, append(args, "list")...)
		if code != exitUsage || !strings.Contains(text, args[0]+":") || strings.Contains(text, "Secret") {
			t.Errorf("%s: exit code %d and %q", args, code, text)
		}
	}
}

// Case 92: the drivers' errors about servers, and the parser's about arguments in the wrong place, have no part of it either.
func TestErrorsHaveNoPassword(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ab", 32)
	for _, args := range [][]string{
		{"--redis", "redis://shop:Secret@127.0.0.1:1/0", "show", id},
		{"--redis", "redis://:Secret@127.0.0.1:1/0?addr=127.0.0.1:1", "show", id},
		{"--redis", "redis://:Secret@127.0.0.1:1/0?master_name=Secret", "show", id},
		{"--redis", "redis://:Secret@127.0.0.1:1/0", "doctor"},
		{"--redis", "redis://:Secret@127.0.0.1:1/0", "doctor", "-o", "json"},
		{"--postgres", "postgres://shop:Secret@127.0.0.1:1/Secret", "show", id},
		{"--postgres", "postgres://shop:Sec%72et@127.0.0.1:1/Secret", "sweep"},
		{"--postgres", "postgres://shop:Secret@127.0.0.1:1/Secret", "doctor"},
		{"--postgres", "postgres://shop:Secret@127.0.0.1:1/Secret", "migrate", "status"},
		{"--postgres", "postgres://127.0.0.1:1/Secret?user=shop&password=Secret", "sweep"},
		{"--postgres", "host=127.0.0.1 port=1 dbname=Secret password='Secret'", "sweep"},
		{"--postgres", `host=127.0.0.1 port=1 dbname=Secret password='it\'s\\ Secret'`, "sweep"},
		{"--postgres", `host=127.0.0.1 port=1 user=Secret PASSWORD = Se\cret`, "sweep"},
		{"--postgres", `host=127.0.0.1 port=1 password='a' dbname=Secret sslpassword=Secret`, "sweep"},
		{"--url", "http://shop:Secret@127.0.0.1:1/ops", "list"},
		{"--url", "http://Secret@127.0.0.1:1/ops", "list"},
		{"--url", "http://127.0.0.1:1/Secret", "--token", "Secret", "list"},
		{"--url", "http://127.0.0.1:1/Secret", "--token=Secret", "list"},
		{"list", "postgres://shop:Secret@host/db"},
		{"list", "host=db password='my Secret'"},
		{"list", "shop:Secret@tcp(host)/db"},
		{"list", "--limit", "redis://:Secret@host"},
		{"--redis", "redis://127.0.0.1:1", "show", "redis://:Secret@host"},
		{"--redis", "redis://127.0.0.1:1", "show", "Redis://Secret@host", "a", "b"},
		{"--redis", "redis://127.0.0.1:1", "explain", "POST /a?token=Secret", "k", "--body", "/password=Secret"},
	} {
		text, code := said(t, append([]string{"--timeout", "2s"}, args...)...)
		if code == exitDone || strings.Contains(strings.ToLower(text), "secret@") || strings.Contains(text, "Secret") || text == "" {
			t.Errorf("%s: exit code %d and %q", args, code, text)
		}
	}
}

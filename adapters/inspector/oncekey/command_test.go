package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// said is the output of a command, in a world without a network.
func said(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), args, world{strings.NewReader(""), &out, &out, http.DefaultTransport})
	return out.String(), code
}

// Faults of the command line are named, and end with 2.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	for _, row := range []struct{ args, says string }{
		{"", "forget\", ... (see --help)"},
		{"shout", "unexpected argument shout"},
		{"list -o xml", "--output"},
		{"list --state lost", "--state"},
		{"list", "where are the records?"},
		{"list --url http://page --redis redis://localhost", "is given with a store"},
		{"list --url localhost:8080", "--url: give the http or https URL"},
		{"list --redis http://localhost", "--redis:"},
		{"list --redis redis://localhost?addr=a:1&pool_size=x", "--redis:"},
		{"list --redis redis://localhost?master_name=a&pool_size=x", "--redis:"},
		{"list --redis ://", "--redis:"},
		{"list --postgres =", "--postgres:"},
		{"list --redis redis://localhost --policies missing.yaml", "missing.yaml"},
		{"show --redis redis://localhost 12", `the record is "12"`},
		{"show --redis redis://localhost a b c", "3 names are given"},
		{"settle --redis redis://localhost 28ad8396 --why x", "--happened"},
		{"settle --redis redis://localhost 28ad8396 --happened", "--why"},
		{"forget --redis redis://localhost 28ad8396", "--why"},
		{"forget --redis redis://localhost 28ad8396 --why=", "--why is empty"},
		{"explain --redis redis://localhost /payments k --body @missing.json", "--body:"},
		{"explain --redis redis://localhost /payments k --header X-Version=2", `--header is "X-Version=2": give NAME: VALUE`},
		{"list --redis redis://localhost --timeout=-1s", "--timeout -1s: give a positive time"},
		{"hash /payments ,", "key"},
		{"sweep --redis redis://localhost", "give --postgres"},
		{"sweep --postgres postgres://localhost --batch 0", "--batch is 0: give from 1 to 10000"},
		{"sweep --postgres postgres://localhost --every=-1s", "--every is -1s: give a positive time"},
		{"migrate status", "give --postgres"},
		{"tail --redis redis://localhost", "give --url"},
		{"tail --url http://page --every 0s", "--every is 0s"},
		{"tail --url http://page --result lost_response", `--result is "lost_response": give one of execute replay `}, // Case 100
		{"tail --url http://page --result lease_renewed", "--result is"},                                              // no page remembers it
		{"tail --url http://page --record INC-2291", `--record is "INC-2291"`},
		{"completion powershell", "powershell"},
	} {
		text, code := said(t, strings.Fields(row.args)...)
		if code != exitUsage || !strings.Contains(text, row.says) {
			t.Errorf("%s: exit code %d and\n%s\nwant %d and %s", row.args, code, text, exitUsage, row.says)
		}
	}
}

// A store or a page that cannot be reached ends with 3, and changes nothing.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // a port that no other test's server takes
	for _, args := range [][]string{
		{"--redis", "redis://" + nobody, "list"},
		{"--redis", "redis://" + nobody, "--as=", "list"}, // as in an image without /etc/passwd: no "Sign in first"
		{"--redis", "redis://" + nobody + "?addr=" + nobody, "list"},
		{"--redis", "redis://" + nobody + "?master_name=shop", "list"},
		{"--postgres", "postgres://" + nobody + "/shop", "list"},
		{"--postgres", "postgres://" + nobody + "/shop", "sweep"},
		{"--postgres", "postgres://" + nobody + "/shop", "migrate", "status"},
		{"--postgres", "postgres://" + nobody + "/shop", "--redis", "redis://" + nobody, "show", strings.Repeat("ab", 32)},
		{"--url", "http://" + nobody, "doctor"},
	} {
		text, code := said(t, append(args, "--timeout", "5s")...)
		if code != exitUnreachable || !strings.HasPrefix(text, "oncekey: ") || strings.Contains(text, "0 ") { // no number of routes that it does not know
			t.Errorf("%s: exit code %d and %q, want %d", args, code, text, exitUnreachable)
		}
	}
}

// A page at a URL, as a service has it: the rights are those of the token.
func TestPageAtAURL(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	s.post("order-41", `{"amount":4200}`)
	s.post("order-42", `{"amount":4200}`)
	server := httptest.NewServer(s.mux)
	t.Cleanup(server.Close)
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	plain := httptest.NewServer(http.StripPrefix("/ops/idempotency", s.page)) // no ServeMux adds the last slash
	t.Cleanup(plain.Close)
	page, plainPage := server.URL+"/ops/idempotency", plain.URL+"/ops/idempotency"
	for _, row := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a reader may look", []string{"--url", page, "--token", "read", "show", "6fd4993b"}, exitDone, "It ran once, and responded 201"},
		{"a name and a password", []string{"--url", strings.Replace(page, "http://", "http://ops:secret@", 1), "show", "6fd4993b"}, exitDone, "It ran once"},
		{"a page behind another router", []string{"--url", plainPage, "--token", "read", "list", "--state", "completed"}, exitDone, "6fd4993b"},
		{"and may not change", []string{"--url", page, "--token", "read", "settle", "ef652c52", "--happened", "--why", "x"}, exitUsage, "does not allow"},
		{"no token", []string{"--url", page, "list"}, exitUsage, "Sign in first"},
		{"no page", []string{"--url", other.URL, "list"}, exitUsage, "give --url of an inspector page"},
		{"no such record", []string{"--url", page, "--token", "read", "show", strings.Repeat("ab", 32)}, exitNothing, "no record"},
		{"no such digits", []string{"--url", page, "--token", "read", "show", "abababab"}, exitNothing, "no record begins with abababab"},
		{"a cursor of another store", []string{"--url", page, "--token", "read", "list", "--cursor", "?"}, exitUsage, "place in the list"},
		{"events", []string{"--url", page, "--token", "read", "tail", "--once", "--result", "uncertain", "-o", "ndjson"}, exitDone, `"result":"uncertain"`},
	} {
		text, code := said(t, row.args...)
		if code != row.code || !strings.Contains(text, row.says) {
			t.Errorf("%s: exit code %d and\n%s\nwant %d and %s", row.name, code, text, row.code, row.says)
		}
	}
}

// tail prints each event once, until a signal.
func TestTailFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t)
		s.post("order-41", `{"amount":1}`)
		ctx, signal := context.WithCancel(t.Context())
		var out bytes.Buffer
		ended := make(chan int)
		go func() {
			ended <- run(ctx, []string{"tail", "--url", "http://shop/ops/idempotency", "--token", "secret", "--record", "6fd4993b"}, world{nil, &out, &out, inProcess{s.mux}})
		}()
		time.Sleep(3 * time.Second) //nolint:forbidigo // the bubble's clock
		s.post("order-41", `{"amount":1}`)
		s.post("order-44", `{"amount":1}`)
		time.Sleep(3 * time.Second) //nolint:forbidigo // the bubble's clock
		signal()
		code := <-ended
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if code != exitDone || len(lines) != 3 || !strings.Contains(lines[2], "replay") {
			t.Errorf("exit code %d and\n%s\nwant 0 and execute, completed, replay", code, &out)
		}
	})
}

// The list continues to the last record, and a cursor continues a list.
func TestListContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t)
		for key := range strings.FieldsSeq("a b c d e") {
			s.post(key, "{}")
		}
		text, code := s.spoken(t, "", "list", "--state", "all", "--limit", "2", "--all")
		if code != exitDone || !strings.Contains(text, "5 shown, ") || !strings.Contains(text, "no more") {
			t.Errorf("--all: exit code %d and\n%s\nwant 5 records", code, text)
		}
		text, _ = s.spoken(t, "", "list", "--state", "all", "--limit", "2")
		_, cursor, more := strings.Cut(text, "--cursor ")
		if cursor, _, _ = strings.Cut(cursor, ","); !more {
			t.Fatalf("the list has no cursor:\n%s", text)
		}
		if text, code := s.spoken(t, "", "list", "--state", "all", "--limit", "3", "--cursor", cursor); code != exitDone || !strings.Contains(text, "3 shown") {
			t.Errorf("--cursor: exit code %d and\n%s\nwant 3 records", code, text)
		}
	})
}

// A settled key answers differently, and its reason and operator are among the events.
func TestChangesAreDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openShopAtTwo(t)
		s.tradingDay(t)
		for _, step := range []struct {
			args []string
			says string
		}{
			{with("settle", "order-42", "--happened", "--why", "INC-2291"), "settled"},
			{with("show", "order-42"), "409 not_replayable"},
			{with("show", "order-42"), "UNREPLAYABLE  POST /payments  attempt 1  settled by hand  claimed"},
			{with("show", "order-42"), "An operator has settled it: it happened. Attempt 1 began on pod-7f9c at 22 Nov 2026 02:10:00 UTC. It was abandoned, and settled by hand at 22 Nov 2026 02:14:24 UTC."},
			{[]string{"list", "--state", "unreplayable"}, "by hand"},
			{with("show", "order-42", "-o", "json"), `"byHand": true`},
			{with("forget", "order-42", "--why", "INC-2292", "--yes-run-again", "ef652c52", "-o", "json"), `"found": false`},
			{with("forget", "order-44", "--why", "INC-2293", "--yes-run-again", "f4c66b2d"), "done"},
			{[]string{"tail", "--once", "--result", "forgotten", "--result", "settled_by_hand"}, "by m.ortiz  INC-2293"},
		} {
			if text, code := s.spoken(t, "", step.args...); code != exitDone || !strings.Contains(text, step.says) {
				t.Errorf("%s: exit code %d and\n%s\nwant %s", step.args, code, text, step.says)
			}
		}
		for _, args := range [][]string{with("show", "order-44"), with("settle", "order-44", "--happened", "--why", "x")} {
			if text, code := s.spoken(t, "", args...); code != exitNothing || !strings.Contains(text, "no record") {
				t.Errorf("after forget: exit code %d and\n%s\nwant no record", code, text)
			}
		}
		if text, code := s.spoken(t, "", with("forget", "order-41", "--why", "x", "--yes-run-again", "f4c66b2d")...); code != exitUsage {
			t.Errorf("with another record's digits: exit code %d and\n%s\nwant %d", code, text, exitUsage)
		}
	})
}

func TestLint(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good, bad, path := filepath.Join(folder, "good.yaml"), filepath.Join(folder, "bad.yaml"), filepath.Join(folder, "path.yaml")
	for name, text := range map[string]string{
		good: "defaults: {TTLHours: 48}\nroutes:\n  POST /payments: {LockTTL: 60s}\n  POST /transfers: {Transactional: true}\n",
		bad:  "routes:\n  POST /payments: {TTLHours: -1}\n",
		path: "routes:\n  POST /payments: {LockTTL: 60s}\n  POST /refunds: {ExcludeFields: [meta..nonce]}\n",
	} {
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	text, code := said(t, "lint", good)
	want := good + ": POST /payments: TTLHours=48 LockTTL=1m Methods=POST\n" + good + ": POST /transfers: TTLHours=48 Methods=POST Transactional=true\n"
	if code != exitDone || text != want {
		t.Errorf("lint good.yaml: exit code %d and %q, want %q", code, text, want)
	}
	var all []lintLine
	text, code = said(t, "lint", bad, good, "-o", "json")
	if err := json.Unmarshal([]byte(text), &all); err != nil || code != exitNothing || len(all) < 2 || all[0].Fault == "" || all[len(all)-1].Policy == "" {
		t.Errorf("as JSON: exit code %d, %v and %q", code, err, text)
	}
	if text, code := said(t, "lint", bad, good); code != exitNothing || !strings.Contains(text, "bad.yaml:2") || !strings.Contains(text, "good.yaml") {
		t.Errorf("lint bad.yaml: exit code %d and %q, want the line of the fault, and the other file", code, text)
	}
	if text, code := said(t, "lint", path); code != exitNothing || !strings.HasPrefix(text, path+":3: POST /refunds: policy: ExcludeFields: ") {
		t.Errorf("lint path.yaml: exit code %d and %q, want the line of a path that no program can declare", code, text)
	}
}

func TestMigrationsArePrinted(t *testing.T) {
	t.Parallel()
	text, code := said(t, "migrate", "--print-sql", "--table", "shop.records")
	if code != exitDone || !strings.HasPrefix(text, "-- version 1: ") || !strings.Contains(text, "shop.records") || strings.Contains(text, `\t`) {
		t.Errorf("exit code %d and\n%.300s\nwant the SQL of version 1 in the schema shop, as psql takes it", code, text)
	}
	if text, code := said(t, "migrate", "--print-sql", "-o", "json"); code != exitDone || !strings.Contains(text, `"sql": `) {
		t.Errorf("exit code %d and\n%.300s\nwant JSON", code, text)
	}
}

func TestAbout(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ args, says string }{
		{"version", "oncekey "},
		{"--version", "oncekey "}, // Case 100
		{"version -o json", `"go": "go1`},
		{"--help", "Exit codes: 0 done"},
		{"settle --help", "--did-not-happen"},
		{"completion fish", "complete -c oncekey -f -n __fish_use_subcommand -a settle -d '"},
		{"completion fish", "complete -c oncekey -n '__fish_seen_subcommand_from settle' -l why"},
		{"completion zsh", "compinit }\nautoload -U +X bashcompinit"},
		{"completion bash", "complete -F _oncekey oncekey"},
		{"hash --scope alice /payments k -o ndjson", `{"record":"`},
	} {
		text, code := said(t, strings.Fields(row.args)...)
		if code != exitDone || !strings.Contains(text, row.says) {
			t.Errorf("%s: exit code %d and\n%s\nwant %s", row.args, code, text, row.says)
		}
	}
}

// The key of a call of core.Do is any text: a header could not carry this one.
func TestHashOfACall(t *testing.T) {
	t.Parallel()
	const key = "\"order, 42\" \n"
	want := "record=" + storage.Key("orders", storage.MethodCall, "charge", key) + "\nidempotency_key=" + event.KeyHash(key) + "\n"
	if text, code := said(t, "hash", "--scope", "orders", "CALL charge", key); code != exitDone || !strings.HasPrefix(text, want) {
		t.Errorf("exit code %d and\n%s\nwant\n%s", code, text, want)
	}
}

// Texts of others cannot write lines or colours into the terminal.
func TestPrinter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newPrinter(world{out: &out, err: &out}, hiding(nil))
	if err := p.table([][]string{{"a\x1b[31mb\nc", "d"}}); err != nil || out.String() != `a\u001b[31mb\nc  d`+"\n" {
		t.Errorf("the table is %q (%v)", &out, err)
	}
	out.Reset()
	p.colour = true
	p.emphasized("a\x1b ", "abandoned", " b\n")
	p.emphasized("", "of a page\x1b", "")
	if want := `a\u001b ` + "\x1b[1;31mABANDONED\x1b[0m" + ` b\n` + "\n" + `OF A PAGE\u001b` + "\n"; out.String() != want {
		t.Errorf("the states are %q, want %q", &out, want)
	}
	if coloured(&out) {
		t.Error("a buffer is a terminal")
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 999 * time.Millisecond: "999ms", 26 * time.Second: "26s", 4 * time.Minute: "4m", 264 * time.Second: "4m24s",
		time.Hour: "1h", 10*time.Hour + 10*time.Minute: "10h10m", 48 * time.Hour: "48h", 20 * time.Minute: "20m", -3 * time.Second: "-3s",
	} {
		testkit.Equal(t, span(d), want, "span of %d", d)
	}
}

// The policies of a file decide where there is no service to ask.
func TestPolicies(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "idempotency.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("routes:\n  POST /payments/{id}: {ExcludeFields: [sentAt]}\n  POST /transfers: {Transactional: true}\n"), 0o600))
	var out bytes.Buffer
	p := newPrinter(world{strings.NewReader(`{"sentAt":1}`), &out, &out, nil}, hiding(nil))
	where := &place{Policies: file, As: "m.ortiz", Service: "shop", Timeout: time.Minute}
	from, err := where.anyPage(p)
	testkit.Must(t, err)
	found := new(inspector.Explanation)
	if _, err := from.post(t.Context(), "explain", url.Values{"target": {"POST /payments/7"}, "key": {"k"}, "body": {"{}"}}, found); err != nil {
		t.Fatal(err)
	}
	if found.Policy == nil || !strings.Contains(found.Policy.Text, "ExcludeFields=sentAt") || found.Endpoint != "POST /payments/{id}" {
		t.Errorf("the policy is %+v of %s, want that of the file", found.Policy, found.Endpoint)
	}
	p.format = "table"
	for path, want := range map[string]bool{"/payments/7": false, "/refunds": true} {
		out.Reset()
		explain := explainCommand{keyed: keyed{Request: "POST " + path, Key: "k"}, Body: "{}"}
		testkit.Must(t, explain.Run(t.Context(), p, where, from))
		if advised := strings.Contains(out.String(), "give --policies"); advised != want {
			t.Errorf("POST %s: whether --policies is advised is %t, want %t:\n%s", path, advised, want, &out)
		}
	}
}

// A record's first digits name it. An explanation compares a file's body. JSON has the same as the table.
func TestRecordsOfADay(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "retry.json")
	testkit.Must(t, os.WriteFile(file, []byte(`{"amount":4200,"4111 1111":1}`), 0o600))
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t)
		s.tradingDay(t)
		for _, row := range []struct {
			args []string
			says string
		}{
			{[]string{"show", "ef652c"}, "ABANDONED"},
			{[]string{"show", "6fd4993bb868"}, "COMPLETED"},
			{with("explain", "order-41", "--body", "@"+file), "1 more, whose names may not be shown"},
			{with("explain", "order-41", "--body", `{"amount":4200,"4111 1111":1}`), "2 of the first request"},
			{with("explain", "order-41", "--body", "@"+file, "-o", "json"), `"result": "key_reused"`},
			{with("explain", "order-41"), "key_reused"},
			{[]string{"doctor", "-o", "json"}, `"grade": "good"`},
			{[]string{"doctor", "-o", "ndjson"}, `"grade":"good"`},
			{with("settle", "order-42", "--did-not-happen", "--why", "x", "--yes-run-again", "ef652c52", "-o", "json"), `"found": false`},
		} {
			if text, code := s.spoken(t, "", row.args...); code != exitDone || !strings.Contains(text, row.says) {
				t.Errorf("%s: exit code %d and\n%s\nwant %s", row.args, code, text, row.says)
			}
		}
	})
}

// Texts about the tables.
func TestTablesInWords(t *testing.T) {
	t.Parallel()
	newest := len(pgstore.Migrations())
	for _, row := range []struct {
		format string
		say    func(*printer) error
		want   string
	}{
		{"table", func(p *printer) error { return p.version(0, newest) }, fmt.Sprintf("tables of version 0 are now of version %d\n", newest)},
		{"table", func(p *printer) error { return p.version(newest, newest) }, fmt.Sprintf("tables of version %d, this command knows %d\n", newest, newest)},
		{"ndjson", func(p *printer) error { return p.version(1, 1) }, fmt.Sprintf(`{"before":1,"newest":%d,"version":1}`+"\n", newest)},
		{"table", func(p *printer) error { return p.steps(pgstore.Migrations()[:1], false) }, "missing: version 1, records\n"},
		{"table", func(p *printer) error { return p.swept(12400, 1100*time.Millisecond) }, "swept 12400 expired records in 1s\n"},
		{"ndjson", func(p *printer) error { return p.swept(12400, 1100*time.Millisecond) }, `{"removed":12400,"tookMs":1100}` + "\n"},
	} {
		var out bytes.Buffer
		p := newPrinter(world{out: &out}, hiding(nil))
		p.format = row.format
		if err := row.say(p); err != nil || out.String() != row.want {
			t.Errorf("got %q (%v), want %q", &out, err, row.want)
		}
	}
}

// Case 100: filters look at all that the service remembers, also where it takes several replies, and no match is exit code 1.
func TestTailLooksAtTheWholeWindow(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	synctest.Test(t, func(t *testing.T) {
		s := openShopThat(t, 2500)
		s.post("order-41", "{}")
		for range 2400 {
			s.post("order-44", "{}")
		}
		for _, row := range []struct {
			filter string
			lines  int
		}{
			{"--record 6fd4993b", 2},
			{"--result completed", 1},
			{"--result execute --result completed", 3},
			{"--result replay", 2399},
			{"--result uncertain", 0},
			{"--record 00000000", 0},
			{"", 10},
		} {
			text, code := s.spoken(t, "", append([]string{"tail", "--once"}, strings.Fields(row.filter)...)...)
			if lines := strings.Count(text, "\n"); lines != row.lines || (code == exitDone) != (lines > 0) {
				t.Errorf("tail --once %s: exit code %d and %d lines, want %d", row.filter, code, lines, row.lines)
			}
		}
		for range 200 { // the first events are not remembered any more
			s.post("order-44", "{}")
		}
		if text, code := s.spoken(t, "", "tail", "--once", "--record", "6fd4993b"); code != exitNothing || !strings.HasSuffix(text, " earlier events are not remembered any more\n") {
			t.Errorf("exit code %d and %q, want the number of forgotten events", code, text)
		}
	})
}

// The results that tail takes are those of package event.
func TestResultsAreKnown(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../core/event/event.go")
	testkit.Must(t, err)
	want := []event.Result{event.LeaseRenewed}
	for _, match := range regexp.MustCompile(`(?m)^\t\w+ +Result = "(\w+)"`).FindAllSubmatch(source, -1) {
		if result := event.Result(match[1]); result != event.LeaseRenewed {
			want = append(want, result)
		}
	}
	testkit.EqualSlices(t, append([]event.Result{event.LeaseRenewed}, results...), want, "tail knows")
}

// Case 100: of a server that cannot be reached, doctor writes a few lines; JSON has each check.
func TestDoctorIsBrief(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--redis", "redis://127.0.0.1:1"}, {"--postgres", "postgres://127.0.0.1:1/shop"}} {
		text, code := said(t, append(args, "doctor")...)
		if code != exitNothing || strings.Count(text, "\n") > 7 || !strings.Contains(text, " checks, from version to canary: the server does not respond") {
			t.Errorf("%s: exit code %d and\n%s\nwant a few lines", args, code, text)
		}
		if text, _ := said(t, append(args, "doctor", "-o", "ndjson")...); strings.Count(text, `"grade":"skipped"`) < 10 {
			t.Errorf("%s: JSON has not each check:\n%s", args, text)
		}
	}
}

// Case 100: doctor over a store does not say that the program lacks an option, which only the program knows.
func TestDoctorKnowsNoOptionOfTheProgram(t *testing.T) {
	t.Parallel()
	one := inspector.Finding{Check: "replication", Seen: "role master, 1 replicas, WaitReplicas 0", Advice: "a failover may lose the last claims and responses: see WaitReplicas"}
	asStore(&one)
	if one.Seen != "role master, 1 replicas" || !strings.HasSuffix(one.Advice, "unless the program has WaitReplicas: its inspector page knows") {
		t.Errorf("the finding is %+v", one)
	}
	if text, code := (stub{200, `{"findings":[{"check":"clock","grade":"mend","advice":"Set it."}],"mend":1}`}).said(t, "doctor"); code != exitNothing || !strings.Contains(text, "Set it.") {
		t.Errorf("exit code %d and\n%s\nwant the advice", code, text)
	}
}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	// go-redis looks for an unreachable server once a second, and sees only then that its client is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

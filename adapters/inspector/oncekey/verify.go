package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector/oncekey/internal/verify"
)

// verifyCommand looks from outside at the rules that a server keeps.
type verifyCommand struct {
	URL             string        `arg:"" name:"url" help:"The endpoint, such as https://staging.example.com/payments."`
	IOwnThisServer  bool          `name:"i-own-this-server" help:"Required: each probe may have an effect, such as a payment."`
	Method          string        `enum:"POST,PUT,PATCH,DELETE" default:"POST" help:"The method: POST, PUT, PATCH, DELETE."`
	Header          []string      `placeholder:"NAME: VALUE" sep:"none" help:"A header of each request, such as the sign-in."`
	Body            string        `placeholder:"TEXT|@FILE" help:"The body of a request that succeeds."`
	OtherBody       string        `placeholder:"TEXT|@FILE" help:"Another payload that would succeed. Default: the body with another number, or another text."`
	FailingBody     string        `placeholder:"TEXT|@FILE" help:"A body to which the server responds 5xx."`
	OtherURL        string        `name:"other-url" placeholder:"URL" help:"Another endpoint of the server that takes the same request."`
	KeyHeader       string        `default:"Idempotency-Key" placeholder:"NAME" help:"The header of the key."`
	QuoteKeys       bool          `help:"Send keys in quotes, as the IETF draft has them."`
	Effects         string        `xor:"effects" placeholder:"URL" help:"A URL that responds with the number of effects so far."`
	EffectsHeader   []string      `placeholder:"NAME: VALUE" sep:"none" help:"A header for --effects."`
	EffectsCommand  string        `xor:"effects" placeholder:"COMMAND" help:"A command for sh that prints the number of effects so far."`
	EffectsPath     string        `placeholder:"PATH" help:"The place of that number in JSON, such as data.0.count."`
	Rules           []string      `enum:"draft,acp,ucp,stripe" help:"The protocols: draft, acp, ucp, stripe. Default: all, and the exit code is that of draft."`
	Concurrency     int           `default:"10" help:"Duplicates that are sent at a time, 2 to 50."`
	MaxRequests     int           `default:"100" help:"Send at most so many requests, with those to --effects."`
	TotalTimeout    time.Duration `default:"2m" help:"Stop after so long. --timeout is for each request."`
	secretsOfHeader []string
}

// verifyTimeout is the default of --timeout for each request of verify.
const verifyTimeout = 10 * time.Second

// mostDuplicates limits --concurrency.
const mostDuplicates = 50

// Run implements the command.
func (c *verifyCommand) Run(ctx context.Context, out *printer, where *place) error {
	if !c.IOwnThisServer {
		return usage("give --i-own-this-server: verify sends up to %d requests, and each may have an effect, such as a payment; use a test endpoint of a server of your own", c.MaxRequests)
	}
	target, err := c.target(where.timeout(verifyTimeout))
	if err != nil {
		return err
	}
	hide := replacing(c.secretsOfHeader)
	target.Hide = func(text string) string { return hide(out.hide(text)) }
	ctx, cancel := context.WithTimeout(ctx, c.TotalTimeout)
	defer cancel()
	seen, err := target.Observe(ctx)
	switch {
	case errors.Is(err, verify.ErrUnreachable):
		return unreachableError{errors.New(target.Hide(err.Error()))}
	case err != nil:
		return errors.New(target.Hide(err.Error()))
	}
	names, counted := c.protocols()
	found := seen.Judge(names)
	if err := out.verified(seen, found); err != nil {
		return err
	}
	if seen.Stopped != "" {
		return fmt.Errorf("stopped: %s (--max-requests %d, --total-timeout %s); rules of skipped probes are unknown", seen.Stopped, c.MaxRequests, c.TotalTimeout)
	}
	for _, one := range found {
		if one.BrokenMust > 0 && slices.Contains(counted, one.Protocol) {
			return errNothing
		}
	}
	return nil
}

// protocols returns the protocols to print, and those of the exit code.
func (c *verifyCommand) protocols() (printed, counted []string) {
	if len(c.Rules) > 0 {
		return c.Rules, c.Rules
	}
	for _, one := range verify.Protocols {
		printed = append(printed, one.Name)
	}
	return printed, printed[:1]
}

// target reads the command line.
func (c *verifyCommand) target(timeout time.Duration) (t *verify.Target, err error) {
	t = &verify.Target{
		URL: c.URL, Method: c.Method, KeyHeader: c.KeyHeader, QuotedKeys: c.QuoteKeys, OtherURL: c.OtherURL,
		Concurrency: c.Concurrency, Timeout: timeout, MaxRequests: c.MaxRequests,
	}
	if err := c.check(timeout); err != nil {
		return nil, err
	}
	if t.Header, err = c.headers("--header", c.Header); err != nil {
		return nil, err
	}
	if t.Header.Get(c.KeyHeader) != "" {
		return nil, usage("--header is %s: leave it out, each probe sends a key of its own", c.KeyHeader)
	}
	for _, one := range []struct {
		flag, text string
		into       *[]byte
	}{{"--body", c.Body, &t.Body}, {"--other-body", c.OtherBody, &t.OtherBody}, {"--failing-body", c.FailingBody, &t.FailingBody}} {
		if *one.into, err = bodyOf(one.text); err != nil {
			return nil, usage("%s: %v", one.flag, err)
		}
	}
	if c.OtherBody == "" {
		t.OtherBody, _ = verify.OtherPayload(t.Body)
	}
	if len(t.OtherBody) == 0 || bytes.Equal(t.OtherBody, t.Body) {
		return nil, usage("give --other-body, a payload that differs from --body: none can be made of a body that is no JSON object with a number or a text")
	}
	t.Effects, err = c.effects(timeout)
	return t, err
}

// checkURLs refuses addresses that net/http cannot send to. No error shows one: it can have a password.
func (c *verifyCommand) checkURLs() error {
	for _, one := range []struct{ flag, address string }{{"the URL", c.URL}, {"--other-url", c.OtherURL}, {"--effects", c.Effects}} {
		parsed, err := url.Parse(one.address)
		if one.address != "" && (err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.Fragment != "") {
			return usage("%s: give an http or https URL, such as https://staging.example.com/payments", one.flag)
		}
	}
	return nil
}

// check refuses wrong values of flags.
func (c *verifyCommand) check(timeout time.Duration) error {
	switch {
	case c.Concurrency != min(max(c.Concurrency, 2), mostDuplicates):
		return usage("--concurrency is %d: give from 2 to %d", c.Concurrency, mostDuplicates)
	case c.MaxRequests < 1:
		return usage("--max-requests is %d: give at least 1", c.MaxRequests)
	case c.TotalTimeout <= 0 || timeout <= 0:
		return usage("--total-timeout is %s and --timeout %s: give times above zero", c.TotalTimeout, timeout)
	case !headerName.MatchString(c.KeyHeader):
		return usage("--key-header is %q: give the name of a header, such as Idempotency-Key", c.KeyHeader)
	default:
		return c.checkURLs()
	}
}

// Names and values of header fields that net/http sends.
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_|~0-9A-Za-z`-]+$")
	headerValue = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// headers reads flags of the form NAME: VALUE, and remembers their secrets.
func (c *verifyCommand) headers(flag string, lines []string) (http.Header, error) {
	header := make(http.Header)
	for _, line := range lines {
		name, value, has := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !has || !headerName.MatchString(name) || !headerValue.MatchString(value) {
			return nil, usage("%s: give NAME: VALUE, such as \"Authorization: Bearer test\"", flag) // it can have a secret
		}
		header.Add(name, value)
		if !slices.Contains(harmless, http.CanonicalHeaderKey(name)) {
			c.secretsOfHeader = append(c.secretsOfHeader, secretsOfValue(value)...)
		}
	}
	return header, nil
}

// effects returns the count that the command line names, or nil.
func (c *verifyCommand) effects(timeout time.Duration) (func(context.Context) (int64, error), error) {
	header, err := c.headers("--effects-header", c.EffectsHeader)
	switch {
	case err != nil:
		return nil, err
	case c.Effects != "":
		return verify.EffectsAt(c.Effects, header, c.EffectsPath, timeout), nil
	case c.EffectsCommand != "":
		return verify.EffectsOf(c.EffectsCommand, c.EffectsPath), nil
	case c.EffectsPath != "" || len(c.EffectsHeader) > 0:
		return nil, usage("give --effects or --effects-command: --effects-path and --effects-header belong to them")
	default:
		return nil, nil
	}
}

// bodyOf returns a text, or the content of a file for @ and its name.
func bodyOf(text string) ([]byte, error) {
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		return os.ReadFile(name) //nolint:gosec // the user's own command line
	}
	return []byte(text), nil
}

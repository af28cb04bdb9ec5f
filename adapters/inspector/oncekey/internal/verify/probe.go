package verify

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// probes is the table of all probes, in their order. The first one shows whether the request
// succeeds at all.
var probes = []struct {
	name Probe
	make func(context.Context, *probing) error
}{
	{EqualRetry, equalRetry},
	{NoKey, func(ctx context.Context, p *probing) error { return p.single(ctx, "") }},
	{PayloadsAlone, payloadsAlone},
	{MemberOrder, respelled(otherMemberOrder, "the body has no two members")},
	{NumberSpelling, respelled(otherNumberSpelling, "the body has no integer")},
	{NullMember, respelled(withNull, "")},
	{ArrayOrder, respelled(otherArrayOrder, "the body has no array of two different elements")},
	{OtherAfter, otherAfter},
	{OtherDuring, otherDuring},
	{Duplicates, duplicates},
	{CutInResponse, func(ctx context.Context, p *probing) error { return p.lostResponse(ctx, inResponse) }},
	{CutBefore, func(ctx context.Context, p *probing) error { return p.lostResponse(ctx, beforeResponse) }},
	{LongestKey, func(ctx context.Context, p *probing) error { return p.single(ctx, keyOf(longestKey)) }},
	{TooLongKey, func(ctx context.Context, p *probing) error { return p.single(ctx, keyOf(longestKey+1)) }},
	{OtherEndpoint, otherEndpoint},
	{KeyOnGet, keyOnGet},
	{MalformedPayload, malformedFirst},
	{ServerError, serverError},
}

// longestKey is the length of a key that every protocol with a limit allows.
const longestKey = 255

// newKey returns a random UUID of version 4.
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// keyOf returns a new key with n characters.
func keyOf(n int) string { return newKey() + strings.Repeat("k", n-len(newKey())) }

// skip is the reason for which a probe is not made.
type skip string

func (s skip) Error() string { return string(s) }

// probing is a probe under way.
type probing struct {
	target *Target
	sender *sender
	into   *Observation
}

// send sends the body to the target, and keeps the exchange.
func (p *probing) send(ctx context.Context, key string, body []byte) (*Exchange, error) {
	return p.sendTo(ctx, p.target.Method, p.target.URL, key, body, never)
}

func (p *probing) sendTo(ctx context.Context, method, address, key string, body []byte, when cut) (*Exchange, error) {
	if err := p.sender.take(1); err != nil {
		return nil, err
	}
	r, err := p.target.request(method, address, key, body, p.into.Probe)
	if err != nil {
		return nil, err
	}
	p.into.Requests++
	seen := p.sender.send(ctx, r, when)
	seen.key, seen.sent = key, string(body)
	p.into.Exchanges = append(p.into.Exchanges, seen)
	return seen, ctx.Err()
}

// pair sends two payloads under one new key, one after the other.
func (p *probing) pair(ctx context.Context, first, second []byte) error {
	key := newKey()
	if _, err := p.send(ctx, key, first); err != nil {
		return err
	}
	_, err := p.send(ctx, key, second)
	return err
}

// together sends payloads under one new key at the same time.
func (p *probing) together(ctx context.Context, bodies ...[]byte) error {
	if err := p.sender.take(len(bodies)); err != nil {
		return err
	}
	key := newKey()
	all := make([]*Exchange, len(bodies))
	var sent sync.WaitGroup
	for i, body := range bodies {
		r, err := p.target.request(p.target.Method, p.target.URL, key, body, p.into.Probe)
		if err != nil {
			return err
		}
		sent.Go(func() {
			all[i] = p.sender.send(ctx, r, never)
			all[i].key, all[i].sent = key, string(body)
		})
	}
	sent.Wait()
	p.into.Exchanges, p.into.Requests = all, len(all)
	return ctx.Err()
}

// single sends one request.
func (p *probing) single(ctx context.Context, key string) error {
	_, err := p.send(ctx, key, p.target.Body)
	return err
}

// mostRetries limits the retries while the server responds 409.
const mostRetries = 5

// retry sends the target's body until the response is no 409, and keeps the last exchange: a 409 to
// an equal request is about a request in progress.
func (p *probing) retry(ctx context.Context, key string) error {
	for tries := 1; ; tries++ {
		seen, err := p.send(ctx, key, p.target.Body)
		if err != nil || seen.Status != http.StatusConflict || tries == mostRetries {
			return err
		}
		pause := time.NewTimer(pauseOf(seen))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		p.into.Exchanges = p.into.Exchanges[:len(p.into.Exchanges)-1]
	}
}

// pauseOf is the time for which a 409 asks: from half a second, which is enough for most, to 5 s.
func pauseOf(refused *Exchange) time.Duration {
	seconds, _ := strconv.Atoi(refused.Header.Get("Retry-After"))
	return min(max(time.Duration(seconds)*time.Second, time.Second/2), 5*time.Second)
}

func equalRetry(ctx context.Context, p *probing) error {
	key := newKey()
	first, err := p.send(ctx, key, p.target.Body)
	if err != nil || !first.succeeded() {
		return err
	}
	return p.retry(ctx, key)
}

// payloadsAlone sends the payloads of later probes, each under a key of its own: where the server does not take one, its
// refusal says nothing about keys.
func payloadsAlone(ctx context.Context, p *probing) error {
	bodies := [][]byte{p.target.OtherBody}
	if isObject(p.target.Body) {
		for _, spell := range []func([]byte) ([]byte, bool){otherMemberOrder, otherNumberSpelling, withNull, otherArrayOrder} {
			if body, is := spell(p.target.Body); is {
				bodies = append(bodies, body)
			}
		}
	}
	for _, body := range bodies {
		if _, err := p.send(ctx, newKey(), body); err != nil {
			return err
		}
	}
	return nil
}

// respelled is the probe that sends the body, and then another spelling of it.
func respelled(spell func([]byte) ([]byte, bool), otherwise skip) func(context.Context, *probing) error {
	return func(ctx context.Context, p *probing) error {
		if !isObject(p.target.Body) {
			return skip("the body is no JSON object")
		}
		other, is := spell(p.target.Body)
		if !is {
			return otherwise
		}
		return p.pair(ctx, p.target.Body, other)
	}
}

func otherAfter(ctx context.Context, p *probing) error {
	return p.pair(ctx, p.target.Body, p.target.OtherBody)
}

func otherDuring(ctx context.Context, p *probing) error {
	return p.together(ctx, p.target.Body, p.target.OtherBody)
}

func duplicates(ctx context.Context, p *probing) error {
	bodies := make([][]byte, p.target.Concurrency)
	for i := range bodies {
		bodies[i] = p.target.Body
	}
	return p.together(ctx, bodies...)
}

// lostResponse sends a request whose response the client does not read, and retries.
func (p *probing) lostResponse(ctx context.Context, when cut) error {
	key := newKey()
	r, err := p.target.request(p.target.Method, p.target.URL, key, nil, p.into.Probe)
	if err != nil {
		return err
	}
	if proxy, err := http.ProxyFromEnvironment(r); err != nil || proxy != nil {
		return skip("a proxy is between: the server would not see the cut")
	}
	if _, err := p.sendTo(ctx, p.target.Method, p.target.URL, key, p.target.Body, when); err != nil {
		return err
	}
	return p.retry(ctx, key)
}

// otherEndpoint uses a key at both URLs, and then another one at the second URL, to know whether
// it takes the request at all.
func otherEndpoint(ctx context.Context, p *probing) error {
	if p.target.OtherURL == "" {
		return skip("no other URL is given")
	}
	key := newKey()
	if _, err := p.send(ctx, key, p.target.Body); err != nil {
		return err
	}
	for _, one := range []string{key, newKey()} {
		if _, err := p.sendTo(ctx, p.target.Method, p.target.OtherURL, one, p.target.Body, never); err != nil {
			return err
		}
	}
	return nil
}

// keyOnGet sends a request, and then GET without a key and with the key of the request.
func keyOnGet(ctx context.Context, p *probing) error {
	key := newKey()
	if _, err := p.send(ctx, key, p.target.Body); err != nil {
		return err
	}
	for _, one := range []string{"", key} {
		if _, err := p.sendTo(ctx, http.MethodGet, p.target.URL, one, nil, never); err != nil {
			return err
		}
	}
	return nil
}

func malformedFirst(ctx context.Context, p *probing) error {
	if !isObject(p.target.Body) {
		return skip("the body is no JSON object")
	}
	return p.pair(ctx, malformed(p.target.Body), p.target.Body)
}

func serverError(ctx context.Context, p *probing) error {
	if len(p.target.FailingBody) == 0 {
		return skip("no body is given to which the server responds 5xx")
	}
	return p.pair(ctx, p.target.FailingBody, p.target.FailingBody)
}

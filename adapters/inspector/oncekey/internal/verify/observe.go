package verify

import (
	"context"
	"errors"
	"fmt"
)

// ErrUnreachable is returned by Observe if the first request, or the count of effects, got no response.
var ErrUnreachable = errors.New("the server does not respond")

// ErrRefused is returned by Observe if the first request got no 2xx: no rule could be judged.
var ErrRefused = errors.New("the request itself does not succeed")

// Observe makes all probes, one after the other. It returns the observations so far if ctx ends or the
// limit of requests is reached. Its errors wrap ErrUnreachable or ErrRefused, or are those of
// Effects.
func (t *Target) Observe(ctx context.Context) (*Seen, error) {
	seen := &Seen{hide: t.Hide, by: make(map[Probe]*Observation)}
	if seen.hide == nil {
		seen.hide = func(text string) string { return text }
	}
	s := &sender{timeout: t.Timeout, left: t.MaxRequests}
	before, err := t.effects(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, one := range probes {
		o := &Observation{Probe: one.name, Skipped: seen.Stopped}
		seen.Observations, seen.by[one.name] = append(seen.Observations, o), o
		if o.Skipped != "" {
			continue
		}
		err := one.make(ctx, &probing{target: t, sender: s, into: o})
		if err == nil {
			before, err = t.count(ctx, s, o, before)
		}
		if err := seen.end(ctx, o, err); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// end looks at the end of a probe. It returns the errors of Observe.
func (s *Seen) end(ctx context.Context, o *Observation, err error) error {
	if reason, is := errors.AsType[skip](err); is {
		o.Skipped = string(reason)
		return nil
	}
	if err != nil {
		if s.Stopped = stopped(ctx, err); s.Stopped == "" {
			return err
		}
	}
	if len(o.Exchanges) == 0 {
		o.Skipped = s.Stopped
		return nil
	}
	if o.Probe == EqualRetry && s.Stopped == "" {
		return s.begin(o.Exchanges[0])
	}
	return nil
}

// begin returns an error unless the first request of all has succeeded.
func (s *Seen) begin(first *Exchange) error {
	switch {
	case first.Status == 0:
		return fmt.Errorf("%w: %s", ErrUnreachable, first.failed)
	case !first.succeeded():
		return fmt.Errorf("%w: give one that gets 2xx, with its headers and its body; this one gets %s", ErrRefused, s.excerpt(first))
	default:
		return nil
	}
}

// stopped returns why no more probes are made, or "".
func stopped(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, errLimit):
		return err.Error()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "the limit of time is reached"
	case ctx.Err() != nil:
		return "interrupted"
	default:
		return ""
	}
}

// effects returns the count of effects, or 0 if nothing counts them.
func (t *Target) effects(ctx context.Context, s *sender) (int64, error) {
	if t.Effects == nil {
		return 0, nil
	}
	if err := s.take(1); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	n, err := t.Effects(ctx)
	if err != nil {
		return 0, fmt.Errorf("the count of effects: %w", err)
	}
	return n, nil
}

// count completes an observation with its effects, and returns the new count.
func (t *Target) count(ctx context.Context, s *sender, o *Observation, before int64) (int64, error) {
	after, err := t.effects(ctx, s)
	if err != nil || t.Effects == nil {
		return before, err
	}
	o.Effects, o.Counted = after-before, true
	return after, nil
}

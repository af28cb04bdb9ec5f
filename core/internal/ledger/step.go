package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/internal/steps"
	"github.com/oncekey/oncekey/core/storage"
)

// Steps are the steps of a hold (core.Step). The lease guards them, and its renewals write
// them. Steps are safe for concurrent use.
type Steps Hold

// stepping is the state of the steps of a hold. Hold.mu guards it.
type stepping struct {
	log     steps.Log
	called  map[string]bool // the names that this run has used
	running int             // steps of this run that have not ended
	unknown bool            // a step of this run has ended, and its outcome is unknown
}

// resumed reads the steps of earlier attempts. The error wraps storage.ErrCorruptRecord.
func resumed(text string) (*stepping, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // most requests have no steps
	}
	log, err := steps.Read(text)
	if err != nil {
		return nil, err
	}
	return &stepping{log: *log}, nil
}

// CutOff returns the last step of earlier attempts that has begun and has no end, or "".
func (s *Steps) CutOff() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps == nil {
		return ""
	}
	return s.steps.log.CutOff()
}

// Begin returns the recorded line of an earlier attempt. Otherwise it records that the
// step has begun, so that the next attempt knows if the step is cut off.
func (s *Steps) Begin(ctx context.Context, name string) (*steps.Line, error) {
	if err := s.admit(ctx); err != nil {
		return nil, notBegun(name, err)
	}
	recorded, err := s.announce(name)
	if recorded != nil || err != nil {
		return recorded, err
	}
	err = s.store(min(s.policy.StoreTimeout, (*Hold)(s).left()))
	if err != nil && !errors.Is(err, storage.ErrLeaseLost) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err == nil {
		err = s.admit(ctx)
	}
	if err != nil {
		s.Fail(name)
		s.End(false)
		return nil, notBegun(name, err)
	}
	return nil, nil //nolint:nilnil // no earlier attempt has recorded the step
}

func notBegun(name string, why error) error {
	return fmt.Errorf("oncekey: step %q was not called: %w", name, why)
}

// admit returns the reason for which no step can begin, or nil. The run's context checks
// the clocks, and ends with the lease.
func (s *Steps) admit(ctx context.Context) error {
	for _, ctx := range [...]context.Context{s.run.Context(), ctx} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

var (
	errStepSettled  = errors.New("the response of the run is settled")
	errStepTwice    = errors.New("a step of this name was called before in this run")
	errStepTooLarge = errors.New("all steps of the request together exceed the policy's MaxResponseBytes")
)

// announce returns the recorded line of the step. Otherwise it adds the line that begins
// the step, for store to write.
func (s *Steps) announce(name string) (*steps.Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != running {
		return nil, notBegun(name, errStepSettled)
	}
	if s.steps == nil {
		s.steps = new(stepping)
	}
	if s.steps.called[name] {
		return nil, notBegun(name, errStepTwice)
	}
	if s.steps.called == nil {
		s.steps.called = make(map[string]bool)
	}
	s.steps.called[name] = true
	if recorded, found := s.steps.log.Recorded(name); found {
		return &recorded, nil
	}
	if err := s.add(steps.Line{Step: name}); err != nil {
		return nil, notBegun(name, err)
	}
	s.steps.running++
	return nil, nil //nolint:nilnil // no earlier attempt has recorded the step
}

// add adds a line when no renewal is under way, and begins the renewal that writes it. The
// caller holds s.mu.
func (s *Steps) add(line steps.Line) error {
	for s.renewing {
		s.renewed.Wait()
	}
	limit := s.policy.MaxResponseBytes
	switch {
	case s.phase != running:
		return errStepSettled
	case int64(s.steps.log.SizeWith(line)) > limit:
		return fmt.Errorf("%w: %d bytes", errStepTooLarge, limit)
	}
	s.steps.log.Add(line)
	s.renewing = true
	return nil
}

// store writes the steps by a renewal of the lease, and repeats the call within timeout.
func (s *Steps) store(timeout time.Duration) error {
	hold, deadline := (*Hold)(s), time.Now().Add(timeout)
	for try := 0; ; try++ {
		calledAt, err := hold.extend(time.Until(deadline))
		wait := soon(try)
		if err == nil || rules.WriteLasts(err) || time.Until(deadline) <= wait || !sleep(s.ledger.background, wait) {
			hold.renewedBy(calledAt, err, false)
			if err == nil { // after a slow reply the next renewal is due, and does not wait for this
				renewPlace(hold)
			}
			return err
		}
	}
}

// Record writes the line with the result of a step that has begun, or with its permanent
// error. After an error the outcome of the step is unknown.
func (s *Steps) Record(line steps.Line) error {
	s.mu.Lock()
	err := s.add(line)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.store(s.policy.StoreTimeout); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.steps.log.Add(steps.Line{Step: line.Step}) // it has no end, as far as this process knows
		return err
	}
	return nil
}

// Fail adds that a step has ended without an effect to remember. The next write to the
// store takes the line along.
func (s *Steps) Fail(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps.log.Add(steps.Line{Step: name, Failed: true})
}

// End ends a step that has begun.
func (s *Steps) End(unknown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps.running--
	s.steps.unknown = s.steps.unknown || unknown
}

// sent notes that the store was sent steps of a size. Lines that it refuses for good are
// taken back, because every later renewal would be refused with them.
func (s *Steps) sent(size int, err error) {
	if errors.Is(err, storage.ErrNotStorable) {
		s.cut()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps != nil {
		s.steps.log.Sent(size)
	}
}

// cut takes the lines back that the store certainly does not have, and reports whether
// there are any.
func (s *Steps) cut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps != nil && s.steps.log.Cut()
}

// kept returns the steps that a released key keeps: the recorded ones, or none.
func (s *Steps) kept() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps == nil {
		return ""
	}
	return s.steps.log.Kept()
}

// renewPlace renews the place of the key after a renewal of its lease.
func renewPlace(h *Hold) {
	if h.ledger.Limit.InFlight > 0 {
		keepPlace(h, min(h.policy.StoreTimeout, h.Lease.LockTTL/3), h.Lease.LockTTL)
	}
}

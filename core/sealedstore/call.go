package sealedstore

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// outcome holds the results of a call of the AEAD.
type outcome struct {
	text []byte
	err  error
}

func (s *Store) encrypt(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return s.call(ctx, func() ([]byte, error) { return s.aead.Encrypt(plaintext, associatedData) })
}

func (s *Store) decrypt(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	return s.call(ctx, func() ([]byte, error) { return s.aead.Decrypt(ciphertext, associatedData) })
}

// call makes one call of the AEAD and waits for it no longer than ctx. A call that is
// given up goes on by itself, and its result is dropped.
func (s *Store) call(ctx context.Context, work func() ([]byte, error)) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %d calls are running: %w", ErrUnavailable, cap(s.calls), ctx.Err())
	}
	returned := make(chan outcome, 1)
	go func() {
		defer func() { <-s.calls }()
		// Until the AEAD returns: it may panic, or end the goroutine.
		o := outcome{err: fmt.Errorf("%w: it did not return", ErrUnavailable)}
		defer func() {
			if panicked := recover(); panicked != nil {
				// Of the value the type alone is named, because its text may hold a response.
				o.err = fmt.Errorf("%w: it panicked with a %T", ErrUnavailable, panicked)
			}
			returned <- o
		}()
		o.text, o.err = work()
	}()
	select {
	case o := <-returned:
		return o.text, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: it has not returned: %w", ErrUnavailable, ctx.Err())
	}
}

// isUnavailable reports whether the error of a call says "not now". No error does not.
func isUnavailable(err error) bool {
	for _, not := range []error{ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, not) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

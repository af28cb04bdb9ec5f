package peers

import (
	"context"
	"sync"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/valyala/fasthttp"
)

// Storage keeps the responses of gofiber: a map under a lock, like gofiber's own default,
// without its copies of the values. Unlike the default, a Storage can be emptied between
// slices.
type Storage struct {
	mu      sync.RWMutex
	entries map[string]entry
}

var _ fiber.Storage = (*Storage)(nil)

// Get returns the value, or nil.
func (s *Storage) Get(key string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, ok := s.entries[key]
	if !ok || !time.Now().Before(found.expires) {
		return nil, nil
	}
	return found.value, nil
}

// Set keeps the value.
func (s *Storage) Set(key string, value []byte, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = entry{value, time.Now().Add(ttl)}
	return nil
}

// Delete forgets a key.
func (s *Storage) Delete(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
	return nil
}

// Reset forgets all keys.
func (s *Storage) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = make(map[string]entry)
	return nil
}

// Close implements the storage of gofiber, and has no effect.
func (s *Storage) Close() error { return nil }

// GetWithContext is Get.
func (s *Storage) GetWithContext(_ context.Context, key string) ([]byte, error) { return s.Get(key) }

// SetWithContext is Set.
func (s *Storage) SetWithContext(_ context.Context, key string, value []byte, ttl time.Duration) error {
	return s.Set(key, value, ttl)
}

// DeleteWithContext is Delete.
func (s *Storage) DeleteWithContext(_ context.Context, key string) error { return s.Delete(key) }

// ResetWithContext is Reset.
func (s *Storage) ResetWithContext(context.Context) error { return s.Reset() }

// NewStorage returns an empty Storage.
func NewStorage() *Storage { return &Storage{entries: make(map[string]entry)} }

// Fiber is an application of gofiber that responds to POST /payments with 201 and the given
// body. Its idempotency middleware is installed unless storage is nil.
func Fiber(storage *Storage, response []byte) fasthttp.RequestHandler {
	app := fiber.New()
	pay := func(c fiber.Ctx) error {
		_ = c.Body()
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Status(fiber.StatusCreated).Send(response)
	}
	if storage == nil {
		app.Post("/payments", pay)
	} else {
		app.Post("/payments", idempotency.New(idempotency.Config{KeyHeader: "Idempotency-Key", Lifetime: storeTTL, Storage: storage}), pay)
	}
	return app.Handler()
}

package peers

import (
	"context"
	"sync"
	"time"

	fiber2 "github.com/gofiber/fiber/v2"
	idempotency2 "github.com/gofiber/fiber/v2/middleware/idempotency"
	fiber3 "github.com/gofiber/fiber/v3"
	idempotency3 "github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/valyala/fasthttp"
)

// Storage keeps the responses of both versions of gofiber: a map under a lock, like
// gofiber's own default, without its copies of the values. Unlike the default, a Storage
// can be emptied between slices.
type Storage struct {
	mu      sync.RWMutex
	entries map[string]entry
}

var (
	_ fiber2.Storage = (*Storage)(nil)
	_ fiber3.Storage = (*Storage)(nil)
)

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

// Fiber2 is an application of gofiber v2 that responds to POST /payments with 201 and the
// given body. Its idempotency middleware is installed unless storage is nil.
func Fiber2(storage *Storage, response []byte) fasthttp.RequestHandler {
	app := fiber2.New(fiber2.Config{DisableStartupMessage: true})
	pay := func(c *fiber2.Ctx) error {
		_ = c.Body()
		c.Set(fiber2.HeaderContentType, fiber2.MIMEApplicationJSON)
		return c.Status(fiber2.StatusCreated).Send(response)
	}
	if storage == nil {
		app.Post("/payments", pay)
	} else {
		app.Post("/payments", idempotency2.New(idempotency2.Config{KeyHeader: "Idempotency-Key", Lifetime: storeTTL, Storage: storage}), pay)
	}
	return app.Handler()
}

// Fiber3 is the same with gofiber v3.
func Fiber3(storage *Storage, response []byte) fasthttp.RequestHandler {
	app := fiber3.New()
	pay := func(c fiber3.Ctx) error {
		_ = c.Body()
		c.Set(fiber3.HeaderContentType, fiber3.MIMEApplicationJSON)
		return c.Status(fiber3.StatusCreated).Send(response)
	}
	if storage == nil {
		app.Post("/payments", pay)
	} else {
		app.Post("/payments", idempotency3.New(idempotency3.Config{KeyHeader: "Idempotency-Key", Lifetime: storeTTL, Storage: storage}), pay)
	}
	return app.Handler()
}

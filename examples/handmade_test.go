package examples_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// cache has the commands of Redis that a guard of one's own uses: GET, SET and SET NX with a time to live, and DEL.
// A pod that is cut off from it gets an error.
type cache struct {
	mu     sync.Mutex
	values map[string]cached
	cutOff map[int]error
}

var errCutOff = errors.New("connection refused")

type cached struct {
	response *httptest.ResponseRecorder
	until    time.Time
}

// cut lets the calls of a pod fail, or succeed again.
func (c *cache) cut(pod int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutOff[pod] = err
}

func (c *cache) get(pod int, key string) (*httptest.ResponseRecorder, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cutOff[pod]; err != nil {
		return nil, err
	}
	if value := c.values[key]; time.Now().Before(value.until) {
		return value.response, nil
	}
	return nil, nil
}

func (c *cache) set(pod int, key string, response *httptest.ResponseRecorder, keep time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cutOff[pod]; err != nil {
		return err
	}
	c.values[key] = cached{response, time.Now().Add(keep)}
	return nil
}

func (c *cache) setIfNew(pod int, key string, keep time.Duration) (won bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cutOff[pod]; err != nil {
		return false, err
	}
	if time.Now().Before(c.values[key].until) {
		return false, nil
	}
	c.values[key] = cached{nil, time.Now().Add(keep)}
	return true, nil
}

func (c *cache) remove(pod int, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cutOff[pod] == nil {
		delete(c.values, key)
	}
}

// handmade is the guard that many teams write, in its two usual forms. Without a lock, it
// looks for a response, runs the handler and stores the response. With a lock, it takes that
// first, and responds with 409 where another request has it.
type handmade struct {
	cache *cache
	pod   int
	lock  time.Duration // 0: none
}

func (h handmade) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		stored, err := h.cache.get(h.pod, "response:"+key)
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		if stored != nil {
			write(w, stored)
			return
		}
		if h.lock > 0 {
			won, err := h.cache.setIfNew(h.pod, "lock:"+key, h.lock)
			if err != nil {
				http.Error(w, "try again", http.StatusServiceUnavailable)
				return
			}
			if !won {
				http.Error(w, "in progress", http.StatusConflict)
				return
			}
			defer h.cache.remove(h.pod, "lock:"+key)
		}
		response := httptest.NewRecorder()
		next.ServeHTTP(response, r)
		if err := h.cache.set(h.pod, "response:"+key, response, 24*time.Hour); err != nil {
			http.Error(w, "the response was not stored", http.StatusInternalServerError)
			return
		}
		write(w, response)
	})
}

func write(w http.ResponseWriter, response *httptest.ResponseRecorder) {
	w.WriteHeader(response.Code)
	w.Write(response.Body.Bytes())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// sender delivers events as a provider does: until the endpoint responds with 2xx.
type sender struct {
	url     string
	webhook *standardwebhooks.Webhook
	client  *http.Client
	luck    *rand.Rand

	deliveries, forged int
}

func newSender(url string, webhook *standardwebhooks.Webhook, seed uint64) *sender {
	luck := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // bad luck, no secret
	return &sender{url: url, webhook: webhook, client: &http.Client{Timeout: 10 * time.Second}, luck: luck}
}

// deliverAll delivers the events in order. Between them comes a forged event now and then.
func (s *sender) deliverAll(ctx context.Context, events int) error {
	defer s.client.CloseIdleConnections()
	for n := range events {
		id, body := fmt.Sprintf("msg_%d", n), fmt.Sprintf(`{"id":"evt_%d","type":"invoice.paid","data":{"order":"o-%d"}}`, n, n)
		if err := s.deliver(ctx, id, body); err != nil {
			return err
		}
		if s.luck.IntN(5) == 0 {
			if err := s.forge(ctx, "msg_forged_"+strconv.Itoa(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver sends an event until a 2xx arrives. Every third response gets lost.
func (s *sender) deliver(ctx context.Context, id, body string) error {
	for {
		copies := 1 + s.luck.IntN(2) // sometimes two workers of the provider have the same event
		statuses, err := s.sendAtOnce(ctx, copies, id, body)
		if err != nil {
			return err
		}
		if s.luck.IntN(3) > 0 && statuses[0]/100 == 2 {
			return nil
		}
	}
}

func (s *sender) sendAtOnce(ctx context.Context, copies int, id, body string) ([]int, error) {
	statuses, errs := make([]int, copies), make([]error, copies)
	var all sync.WaitGroup
	for i := range copies {
		all.Go(func() { statuses[i], errs[i] = s.send(ctx, s.webhook, id, body) })
	}
	all.Wait()
	s.deliveries += copies
	return statuses, errors.Join(errs...)
}

// forge sends an event that a third party has signed.
func (s *sender) forge(ctx context.Context, id string) error {
	other, err := standardwebhooks.NewWebhookRaw([]byte("another secret"))
	if err != nil {
		return err
	}
	status, err := s.send(ctx, other, id, `{"type":"invoice.paid","data":{"order":"o-forged"}}`)
	if err == nil && status != http.StatusUnauthorized {
		err = fmt.Errorf("webhooks: a forged event got %d", status)
	}
	s.forged++
	return err
}

// send makes one delivery, signed now.
func (s *sender) send(ctx context.Context, webhook *standardwebhooks.Webhook, id, body string) (int, error) {
	request, err := signed(ctx, webhook, s.url, id, body)
	if err != nil {
		return 0, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

// signed is a request with the three headers of Standard Webhooks.
func signed(ctx context.Context, webhook *standardwebhooks.Webhook, url, id, body string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	signature, err := webhook.Sign(id, now, []byte(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return request, nil
}

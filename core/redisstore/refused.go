package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

// refusedTexts are in the errors with which Redis refuses a value for good: it is larger
// than proto-max-bulk-len. Too little memory may pass, and is none of them.
var refusedTexts = []string{"invalid bulk length", "string exceeds maximum allowed size"}

const (
	// bulkSetting limits a value.
	bulkSetting = "proto-max-bulk-len"
	// smallestBulk is the lowest limit that Redis takes.
	smallestBulk = 1 << 20
	// claimRoom is more than a claim takes beside its steps.
	claimRoom = 4 << 10
)

// unlessRefused marks the error of a write of some bytes that the server refuses for good.
// The server ends the connection over a value that is too large, often before the client
// has read the error: then it is asked for its limit.
func (s *Store) unlessRefused(ctx context.Context, size int, err error) error {
	if err == nil {
		return nil
	}
	for _, text := range refusedTexts {
		if isServerError(err) && strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: %s: %w", storage.ErrNotStorable, bulkSetting, err)
		}
	}
	if size >= smallestBulk && !isServerError(err) && ctx.Err() == nil && s.exceedsBulk(ctx, size) {
		return fmt.Errorf("%w: its value of %d bytes is larger than %s: %w", storage.ErrNotStorable, size, bulkSetting, err)
	}
	return err
}

// refusesWrites reports whether the server refuses all writes for now, and still reads: its
// memory is full, it cannot write to its disk, or it is a replica or lacks them.
func refusesWrites(err error) bool {
	return slices.ContainsFunc([]string{"OOM", "MISCONF", "READONLY", "NOREPLICAS"}, func(code string) bool {
		return redis.HasErrorPrefix(err, code)
	})
}

// exceedsBulk reports whether a value is larger than the server takes. A server that hides
// its settings refuses to look for a bit behind the largest value, if it permits that.
func (s *Store) exceedsBulk(ctx context.Context, size int) bool {
	const bitsPerByte = 8
	exceeds, err := bounded(ctx, s, func(ctx context.Context) (bool, error) {
		key := s.prefix + checkKey
		found, err := s.client.ConfigGet(ctx, bulkSetting).Result()
		if limit, broken := strconv.Atoi(found[bulkSetting]); err == nil && broken == nil {
			return size > limit, nil
		}
		err = s.client.GetBit(ctx, key, int64(size)*bitsPerByte).Err()
		return err != nil && redis.HasErrorPrefix(err, "bit offset"), nil
	})
	return err == nil && exceeds
}

// sizeOf is the size of the largest value among the arguments of a script.
func sizeOf(arguments []any) (size int) {
	for _, argument := range arguments {
		if value, is := argument.([]byte); is {
			size = max(size, len(value))
		}
	}
	return size
}

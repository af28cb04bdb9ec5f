package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// beginning is how many bytes of a value List reads. With one of the engine's fingerprints,
// the part before header and body takes a third of them.
const beginning = 1024

// candidates returns the keys whose records may be in a wanted state.
func (l *listing) candidates(ctx context.Context, keys []string) []string {
	if len(keys) == 0 || !l.filter.Abandoned && len(l.filter.States) == 0 {
		return keys
	}
	pipeline := l.store.client.Pipeline()
	heads := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		heads[i] = pipeline.GetRange(ctx, l.store.prefix+key, 0, plainSize-1)
	}
	exec(ctx, pipeline)
	candidates := keys[:0]
	for i, head := range heads {
		if head.Err() != nil || l.mayMatch(head.Val()) { // read meets the error again, or finds the value
			candidates = append(candidates, keys[i])
		}
	}
	return candidates
}

// mayMatch reports whether the record of a value may be in a wanted state, by the
// beginning of the value. It returns true for a value that is not a record.
func (l *listing) mayMatch(head string) bool {
	if !isRecord(head) {
		return head != ""
	}
	remembered := head[stateAt+1] != 0
	return l.wants(storage.State(head[stateAt])) || remembered && l.wants(storage.Expired) || mayBeApart(head) && l.wants(storage.Unreplayable)
}

func (l *listing) wants(state storage.State) bool {
	if l.filter.Abandoned {
		return state == storage.InProgress
	}
	return slices.Contains(l.filter.States, state)
}

// read returns the matching records of the keys.
func (l *listing) read(ctx context.Context, keys []string) (found []storage.Entry, err error) {
	replies := l.beginnings(ctx, keys, beginningScript.EvalSha)
	var lost []string // the server has lost the script
	for i, key := range keys {
		if redis.HasErrorPrefix(replies[i].Err(), "NOSCRIPT") {
			lost = append(lost, key)
			continue
		}
		if found, err = l.add(ctx, found, key, replies[i]); err != nil {
			return nil, err
		}
	}
	replies = l.beginnings(ctx, lost, beginningScript.Eval)
	for i, key := range lost {
		if found, err = l.add(ctx, found, key, replies[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// beginnings runs beginningScript for each key.
func (l *listing) beginnings(
	ctx context.Context, keys []string, run func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd,
) []*redis.Cmd {
	if len(keys) == 0 {
		return nil
	}
	pipeline := l.store.client.Pipeline()
	replies := make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		response, _ := l.store.responseKey(key)
		replies[i] = run(ctx, pipeline, []string{l.store.prefix + key, response}, beginning)
	}
	exec(ctx, pipeline)
	return replies
}

// add adds the record of a reply, if it matches.
func (l *listing) add(ctx context.Context, found []storage.Entry, key string, reply *redis.Cmd) ([]storage.Entry, error) {
	record, err := l.recordOf(ctx, key, reply)
	switch failed := l.store.failure("list", key, err); {
	case errors.Is(failed, storage.ErrCorruptRecord):
		if l.unreadable++; l.unreadable == 1 {
			l.firstUnreadable = failed
		}
	case err != nil:
		return nil, err
	case record != nil && l.matches(record):
		found = append(found, listed(key, record))
	}
	return found, nil
}

// recordOf decodes the reply of beginningScript. It returns nil for a key without a
// record.
func (l *listing) recordOf(ctx context.Context, key string, reply *redis.Cmd) (*storage.Record, error) {
	values, err := reply.Slice()
	if isNil(err) {
		return nil, nil //nolint:nilnil // the key is gone
	}
	if err != nil {
		return nil, err
	}
	head, _ := values[0].(string)
	left, _ := values[1].(int64)
	held, enough, err := decodeBeginning([]byte(head))
	if enough && err == nil && held.apart {
		response, _ := values[len(values)-1].(string)
		enough, err = held.joinBeginning([]byte(response))
	}
	if !enough && isRecord(head) { // the fingerprint is long
		return l.store.lookUp(ctx, key)
	}
	if !enough {
		return nil, records.Corrupt("it begins with %s", records.Excerpt(head))
	}
	if err != nil || held.forgotten {
		return nil, err
	}
	seen := &snapshot{stored: held}
	err = seen.clock(lifeLeft(left))
	return &seen.record, err
}

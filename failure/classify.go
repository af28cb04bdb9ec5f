package failure

import "net/http"

// Class is what becomes of a key after its handler ran. The zero Class is Cache.
type Class uint8

// The classes. DeleteKey and Retryable both free the key; they differ in what
// is reported: something broke, or somebody said "try again".
const (
	// ClassCache keeps the answer and replays it to every retry.
	ClassCache Class = iota
	// ClassDeleteKey frees the key because the run broke down.
	ClassDeleteKey
	// ClassRetryable frees the key because nothing has happened yet.
	ClassRetryable
	// ClassUncertain leaves the key abandoned, as a crash does: the side effect may
	// or may not have happened. The policy's OnAbandoned decides about the next
	// request.
	ClassUncertain
)

// String returns cache, delete_key, retryable or uncertain.
func (c Class) String() string {
	switch c {
	case ClassDeleteKey:
		return "delete_key"
	case ClassRetryable:
		return "retryable"
	case ClassUncertain:
		return "uncertain"
	default:
		return "cache"
	}
}

// Outcome is how a run ended.
type Outcome struct {
	// Status is the HTTP status that the handler wrote; zero if it wrote nothing.
	Status int
	// Err is what ended the run in place of an answer: the cause of the handler's
	// context, or the error that a function returned. Nil when there is none.
	Err error
	// Panicked says that the run ended in a panic, http.ErrAbortHandler included,
	// or in runtime.Goexit.
	Panicked bool
	// ContextEnded says that the handler's context ended before the handler had a
	// result: it lost its lease, passed MaxRun or a deadline of middleware.
	ContextEnded bool
	// Retryable, Executed and Uncertain are the handler's marks.
	Retryable bool
	Executed  bool
	Uncertain bool
}

// Classify is the rule that holds unless a policy replaces it:
//
//	2xx, 3xx                                              ClassCache
//	4xx                                                   ClassCache, except
//	401, 407, 408, 425, 429                               ClassRetryable
//	5xx, a panic, no answer because the context ended     ClassDeleteKey
//	MarkRetryable, or an error wrapped by Retryable       ClassRetryable
//	MarkUncertain, or an error wrapped by Uncertain       ClassUncertain
//	an error wrapped by Permanent                         ClassCache
//	any of these after MarkExecuted                       ClassCache
//
// Of several marks the safest wins: executed, then uncertain, then retryable.
//
// The statuses that may be retried are those that RFC 9110 (401, 407, 408),
// RFC 8470 (425) and RFC 6585 (429) define as "not now" and not as "no".
func Classify(o Outcome) Class {
	switch {
	case o.Marked():
		return o.markedClass()
	case o.Panicked, o.Status == 0 && o.Err != nil && !IsPermanent(o.Err):
		return ClassDeleteKey
	default:
		return classifyStatus(o.Status)
	}
}

// Marked reports whether the handler has decided by a mark, or by an error that
// carries one. Such an outcome is classified alike under every policy.
func (o Outcome) Marked() bool {
	return o.Executed || o.Uncertain || o.Retryable || IsUncertain(o.Err) || IsRetryable(o.Err)
}

func (o Outcome) markedClass() Class {
	switch {
	case o.Executed:
		return ClassCache
	case o.Uncertain || IsUncertain(o.Err):
		return ClassUncertain
	default:
		return ClassRetryable
	}
}

func classifyStatus(status int) Class {
	switch status {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return ClassRetryable
	}
	if status >= http.StatusInternalServerError {
		return ClassDeleteKey
	}
	return ClassCache
}

package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	broken := errors.New("context ended")
	type row struct {
		outcome failure.Outcome
		want    failure.Class
	}
	testkit.Each(t, map[string]row{
		"200":                                {failure.Outcome{Status: 200}, failure.ClassCache},
		"201":                                {failure.Outcome{Status: 201}, failure.ClassCache},
		"204":                                {failure.Outcome{Status: 204}, failure.ClassCache},
		"303":                                {failure.Outcome{Status: 303}, failure.ClassCache},
		"without a response, net/http's 200": {failure.Outcome{}, failure.ClassCache},
		"101 upgraded":                       {failure.Outcome{Status: 101}, failure.ClassCache},
		"400":                                {failure.Outcome{Status: 400}, failure.ClassCache},
		"402":                                {failure.Outcome{Status: 402}, failure.ClassCache},
		"409":                                {failure.Outcome{Status: 409}, failure.ClassCache},
		"422":                                {failure.Outcome{Status: 422}, failure.ClassCache},
		"401":                                {failure.Outcome{Status: 401}, failure.ClassRetryable},
		"407":                                {failure.Outcome{Status: 407}, failure.ClassRetryable},
		"408":                                {failure.Outcome{Status: 408}, failure.ClassRetryable},
		"425":                                {failure.Outcome{Status: 425}, failure.ClassRetryable},
		"429":                                {failure.Outcome{Status: 429}, failure.ClassRetryable},
		"500":                                {failure.Outcome{Status: 500}, failure.ClassDeleteKey},
		"503":                                {failure.Outcome{Status: 503}, failure.ClassDeleteKey},
		"599":                                {failure.Outcome{Status: 599}, failure.ClassDeleteKey},
		"panic":                              {failure.Outcome{Panicked: true}, failure.ClassDeleteKey},
		"panic after a 201":                  {failure.Outcome{Status: 201, Panicked: true}, failure.ClassDeleteKey},
		"context ended, nothing written":     {failure.Outcome{Err: broken}, failure.ClassDeleteKey},
		"context ended after a response":     {failure.Outcome{Status: 201, Err: broken}, failure.ClassCache},
		"marked retryable":                   {failure.Outcome{Status: 409, Retryable: true}, failure.ClassRetryable},
		"marked retryable, 500":              {failure.Outcome{Status: 500, Retryable: true}, failure.ClassRetryable},
		"marked retryable, panic":            {failure.Outcome{Panicked: true, Retryable: true}, failure.ClassRetryable},
		"retryable error":                    {failure.Outcome{Status: 409, Err: failure.Retryable(broken)}, failure.ClassRetryable},
		"marked uncertain":                   {failure.Outcome{Status: 504, Uncertain: true}, failure.ClassUncertain},
		"marked uncertain, 201":              {failure.Outcome{Status: 201, Uncertain: true}, failure.ClassUncertain},
		"marked uncertain, panic":            {failure.Outcome{Panicked: true, Uncertain: true}, failure.ClassUncertain},
		"uncertain error":                    {failure.Outcome{Err: failure.Uncertain(broken)}, failure.ClassUncertain},
		"uncertain beats retryable":          {failure.Outcome{Uncertain: true, Retryable: true}, failure.ClassUncertain},
		"an uncertain error beats retryable": {failure.Outcome{Retryable: true, Err: failure.Uncertain(broken)}, failure.ClassUncertain},
		"uncertain beats permanent":          {failure.Outcome{Uncertain: true, Err: failure.Permanent(broken)}, failure.ClassUncertain},
		"executed beats uncertain":           {failure.Outcome{Executed: true, Uncertain: true}, failure.ClassCache},
		"executed, 500":                      {failure.Outcome{Status: 500, Executed: true}, failure.ClassCache},
		"executed, 429":                      {failure.Outcome{Status: 429, Executed: true}, failure.ClassCache},
		"executed, panic":                    {failure.Outcome{Panicked: true, Executed: true}, failure.ClassCache},
		"executed, context ended":            {failure.Outcome{Err: broken, Executed: true}, failure.ClassCache},
		"executed beats retryable":           {failure.Outcome{Status: 409, Executed: true, Retryable: true}, failure.ClassCache},
	}, func(t *testing.T, c row) {
		testkit.Equal(t, failure.Classify(c.outcome), c.want, "Classify(%+v)", c.outcome)
	})
}

func TestClassString(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(failure.ClassCache, failure.ClassDeleteKey, failure.ClassRetryable, failure.ClassUncertain)
	testkit.Equal(t, got, "cache delete_key retryable uncertain", "the classes")
}

type valueKey struct{}

func TestMarksTravelWithTheContext(t *testing.T) {
	t.Parallel()
	marks := new(failure.Marks)
	ctx := failure.NewContext(t.Context(), marks)
	derived, cancel := context.WithCancel(context.WithValue(ctx, valueKey{}, 1))
	defer cancel()
	if !failure.MarkRetryable(derived, "email", "is taken") {
		t.Error("MarkRetryable on a derived context returned false")
	}
	if !failure.MarkExecuted(ctx) {
		t.Error("MarkExecuted returned false")
	}
	marked, reason := marks.Read(failure.Outcome{})
	if !marked.Retryable || !marked.Executed || marked.Uncertain || reason != "email is taken" {
		t.Errorf("got %+v, %q", marked, reason)
	}
}

// A router's own context type may look up only strings, as gin's does.
func TestMarksThroughAPublishedContext(t *testing.T) {
	t.Parallel()
	marks := new(failure.Marks)
	ctx := failure.NewContext(t.Context(), marks)
	router := stringsOnly{t.Context(), map[string]any{failure.ContextKey: ctx}}
	if !failure.MarkExecuted(router) {
		t.Error("MarkExecuted returned false")
	}
	if marked, _ := marks.Read(failure.Outcome{}); !marked.Executed {
		t.Error("the mark did not arrive")
	}
	empty := stringsOnly{t.Context(), map[string]any{failure.ContextKey: t.Context()}}
	if failure.MarkExecuted(empty) {
		t.Error("MarkExecuted returned true for a published context without marks")
	}
}

type stringsOnly struct {
	context.Context
	values map[string]any
}

func (s stringsOnly) Value(key any) any {
	if name, ok := key.(string); ok {
		return s.values[name]
	}
	return nil
}

func TestMarkOutsideAGuardedRouteReturnsFalse(t *testing.T) {
	t.Parallel()
	if failure.MarkRetryable(t.Context()) || failure.MarkExecuted(t.Context()) || failure.MarkUncertain(t.Context()) {
		t.Error("a mark without a guard returned true")
	}
}

func TestMarkAfterTheResponseWasSettledReturnsFalse(t *testing.T) {
	t.Parallel()
	marks := new(failure.Marks)
	ctx := failure.NewContext(t.Context(), marks)
	marks.Seal()
	if failure.MarkRetryable(ctx) || failure.MarkExecuted(ctx) || failure.MarkUncertain(ctx) {
		t.Error("a late mark returned true")
	}
	if marked, _ := marks.Read(failure.Outcome{}); marked.Marked() {
		t.Error("a late mark counted")
	}
}

func TestMarksAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	marks := new(failure.Marks)
	ctx := failure.NewContext(t.Context(), marks)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() { failure.MarkRetryable(ctx, "busy") })
		group.Go(func() { failure.MarkExecuted(ctx) })
		group.Go(func() { failure.MarkUncertain(ctx) })
		group.Go(func() { marks.Read(failure.Outcome{}) })
	}
	group.Wait()
	if marked, _ := marks.Read(failure.Outcome{}); !marked.Retryable || !marked.Executed || !marked.Uncertain {
		t.Error("a mark was lost")
	}
}

func TestMarkedErrors(t *testing.T) {
	t.Parallel()
	type test struct {
		mark func(error) error
		is   func(error) bool
	}
	testkit.Each(t, map[string]test{
		"Retryable": {failure.Retryable, failure.IsRetryable},
		"Uncertain": {failure.Uncertain, failure.IsUncertain},
		"Permanent": {failure.Permanent, failure.IsPermanent},
	}, func(t *testing.T, test test) {
		if test.mark(nil) != nil {
			t.Error("a nil error is wrapped")
		}
		err := fmt.Errorf("create member: %w", test.mark(io.ErrUnexpectedEOF))
		if !test.is(err) || test.is(io.EOF) || test.is(nil) {
			t.Error("the mark is not found, or an unmarked error has it")
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "create member: unexpected EOF" {
			t.Errorf("the wrapped error is lost: %v", err)
		}
	})
}

// After the point of no return every response is stored, even that of a panic.
func ExampleMarkExecuted() {
	marks := new(failure.Marks)
	ctx := failure.NewContext(context.Background(), marks) // as the guard does
	fmt.Println(failure.MarkExecuted(ctx))
	marked, _ := marks.Read(failure.Outcome{})
	executed := marked.Executed
	fmt.Println(failure.Classify(failure.Outcome{Panicked: true, Executed: executed}))
	// Output:
	// true
	// cache
}

func ExamplePermanent() {
	declined := errors.New("card declined")
	fmt.Println(failure.Classify(failure.Outcome{Err: declined}))
	fmt.Println(failure.Classify(failure.Outcome{Err: failure.Permanent(declined)}))
	fmt.Println(failure.Classify(failure.Outcome{Err: failure.Retryable(declined)}))
	// Output:
	// delete_key
	// cache
	// retryable
}

func ExampleMarkRetryable() {
	createMember := func(w http.ResponseWriter, r *http.Request) {
		// No side effect happened yet. With the key released, the client may
		// send another email under the same key.
		failure.MarkRetryable(r.Context(), "email is taken")
		http.Error(w, "email is taken", http.StatusConflict)
	}
	ctx := failure.NewContext(context.Background(), new(failure.Marks)) // as the guard does
	request := httptest.NewRequest(http.MethodPost, "/members", http.NoBody).WithContext(ctx)
	response := httptest.NewRecorder()
	createMember(response, request)
	fmt.Println(response.Code, failure.MarkRetryable(request.Context()))
	// Output: 409 true
}

func ExampleClassify() {
	fmt.Println(failure.Classify(failure.Outcome{Status: http.StatusCreated}))
	fmt.Println(failure.Classify(failure.Outcome{Status: http.StatusServiceUnavailable}))
	fmt.Println(failure.Classify(failure.Outcome{Status: http.StatusServiceUnavailable, Executed: true}))
	fmt.Println(failure.Classify(failure.Outcome{Status: http.StatusTooManyRequests}))
	// Output:
	// cache
	// delete_key
	// cache
	// retryable
}

func TestOnlySuccessOutcomes(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		outcome failure.Outcome
		want    failure.Class
	}{
		"201":                        {failure.Outcome{Status: 201}, failure.ClassCache},
		"no response, a 200":         {failure.Outcome{}, failure.ClassCache},
		"303":                        {failure.Outcome{Status: 303}, failure.ClassDeleteKey},
		"422":                        {failure.Outcome{Status: 422}, failure.ClassDeleteKey},
		"429":                        {failure.Outcome{Status: 429}, failure.ClassRetryable},
		"500":                        {failure.Outcome{Status: 500}, failure.ClassDeleteKey},
		"panic after a 201":          {failure.Outcome{Status: 201, Panicked: true}, failure.ClassDeleteKey},
		"422 executed":               {failure.Outcome{Status: 422, Executed: true}, failure.ClassCache},
		"422 uncertain":              {failure.Outcome{Status: 422, Uncertain: true}, failure.ClassUncertain},
		"a function's error":         {failure.Outcome{Err: broken}, failure.ClassDeleteKey},
		"a function's lasting error": {failure.Outcome{Err: failure.Permanent(broken)}, failure.ClassCache},
		"a lasting error with a 422": {failure.Outcome{Status: 422, Err: failure.Permanent(broken)}, failure.ClassCache},
	} {
		testkit.Equal(t, failure.OnlySuccess(row.outcome), row.want, "%s", name)
	}
}

// Read returns the reason of the last mark with a reason, whichever marks follow.
func TestReasonOfAnEarlierMark(t *testing.T) {
	t.Parallel()
	marks := new(failure.Marks)
	ctx := failure.NewContext(t.Context(), marks)
	failure.MarkUncertain(ctx, "the provider timed out")
	failure.MarkRetryable(ctx)
	failure.MarkUncertain(ctx)
	if _, reason := marks.Read(failure.Outcome{}); reason != "the provider timed out" {
		t.Errorf("the reason is %q", reason)
	}
	failure.MarkRetryable(ctx, strings.Repeat("é1", 1<<20))
	if _, reason := marks.Read(failure.Outcome{}); reason != strings.Repeat("é1", 333) {
		t.Errorf("a long reason has %d bytes: %.20q", len(reason), reason)
	}
}

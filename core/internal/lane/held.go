package lane

import "time"

// Hold lets calls wait as if a statement were under way, until release: a test then has them
// in one batch, as far as its bounds allow.
func (l *Lane[Q, R]) Hold() (release func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.overdue = time.AfterFunc(time.Hour, func() {}) // never, however slow the test
	l.Statements = 1
	number := l.start()
	return func() { l.end(number) }
}

// Waiting is how many calls wait.
func (l *Lane[Q, R]) Waiting() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.waiting)
}

// Wrote reports whether the last statement was a batch that has written.
func (l *Lane[Q, R]) Wrote() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.wrote
}

package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Each outcome is classified by the first rule that has a word on it: the handler's
// marks, the lists, OnAbandoned, the Classifier.
func TestClassifyByLists(t *testing.T) {
	t.Parallel()
	const cache, deleteKey, retryable, uncertain = failure.ClassCache, failure.ClassDeleteKey, failure.ClassRetryable, failure.ClassUncertain
	broken := errors.New("broken")
	ended := failure.Outcome{Err: context.DeadlineExceeded, ContextEnded: true}
	panicked := failure.Outcome{Status: http.StatusCreated, Panicked: true}
	refuse := policy.OnAbandoned(policy.Refuse)
	recovers := policy.OnAbandoned(policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) { return nil, nil }))
	onlySuccess := policy.Classifier(func(o failure.Outcome) failure.Class {
		if o.Status < 300 {
			return cache
		}
		return retryable
	})
	of := func(status int) failure.Outcome { return failure.Outcome{Status: status} }
	type row struct {
		opts    []policy.Option
		outcome failure.Outcome
		want    failure.Class
	}
	testkit.Each(t, map[string]row{
		"release 400":                        {[]policy.Option{policy.Release("400", "422")}, of(400), deleteKey},
		"release 422":                        {[]policy.Option{policy.Release("400", "422")}, of(422), deleteKey},
		"release another":                    {[]policy.Option{policy.Release("400", "422")}, of(404), cache},
		"release a class":                    {[]policy.Option{policy.Release("4xx")}, of(404), deleteKey},
		"keep 5xx":                           {[]policy.Option{policy.Keep("5xx")}, of(503), cache},
		"keep a 429":                         {[]policy.Option{policy.Keep("429")}, of(429), cache},
		"uncertain 502":                      {[]policy.Option{policy.Uncertain("502", "504")}, of(502), uncertain},
		"not uncertain 500":                  {[]policy.Option{policy.Uncertain("502", "504")}, of(500), deleteKey},
		"uncertain 202":                      {[]policy.Option{policy.Uncertain("202")}, of(202), uncertain},
		"a status beats a class":             {[]policy.Option{policy.Keep("5xx"), policy.Uncertain("502")}, of(502), uncertain},
		"a status beats a later class":       {[]policy.Option{policy.Release("502"), policy.Uncertain("5xx")}, of(502), deleteKey},
		"the class has the rest":             {[]policy.Option{policy.Keep("5xx"), policy.Uncertain("502")}, of(503), cache},
		"a panic counts as 500":              {[]policy.Option{policy.Uncertain("500")}, panicked, uncertain},
		"a panic is no 201":                  {[]policy.Option{policy.Uncertain("201")}, panicked, deleteKey},
		"an ended context counts as 503":     {[]policy.Option{policy.Uncertain("503")}, ended, uncertain},
		"a response counts after the end":    {[]policy.Option{policy.Uncertain("503")}, failure.Outcome{Status: 201, ContextEnded: true}, cache},
		"an error of a function has none":    {[]policy.Option{policy.Uncertain("5xx")}, failure.Outcome{Err: broken}, deleteKey},
		"marks beat lists":                   {[]policy.Option{policy.Keep("5xx")}, failure.Outcome{Status: 503, Retryable: true}, retryable},
		"executed beats lists":               {[]policy.Option{policy.Release("5xx")}, failure.Outcome{Status: 503, Executed: true}, cache},
		"lists beat the classifier":          {[]policy.Option{onlySuccess, policy.Keep("422")}, of(422), cache},
		"the classifier has the rest":        {[]policy.Option{onlySuccess, policy.Keep("422")}, of(404), retryable},
		"marks beat the classifier":          {[]policy.Option{onlySuccess}, failure.Outcome{Status: 404, Uncertain: true}, uncertain},
		"refuse: 5xx":                        {[]policy.Option{refuse}, of(500), uncertain},
		"refuse: 4xx":                        {[]policy.Option{refuse}, of(422), cache},
		"refuse: not now":                    {[]policy.Option{refuse}, of(429), retryable},
		"refuse: panic":                      {[]policy.Option{refuse}, panicked, uncertain},
		"refuse: ended context":              {[]policy.Option{refuse}, ended, uncertain},
		"refuse: permanent after the end":    {[]policy.Option{refuse}, failure.Outcome{Err: failure.Permanent(broken), ContextEnded: true}, cache},
		"refuse: an error of a function":     {[]policy.Option{refuse}, failure.Outcome{Err: broken}, deleteKey},
		"refuse: marked retryable":           {[]policy.Option{refuse}, failure.Outcome{Status: 503, Retryable: true}, retryable},
		"refuse: release 503":                {[]policy.Option{refuse, policy.Release("503")}, of(503), deleteKey},
		"refuse: release 503, ended context": {[]policy.Option{refuse, policy.Release("503")}, ended, deleteKey},
		"refuse: release 503, a 500":         {[]policy.Option{refuse, policy.Release("503")}, of(500), uncertain},
		"refuse: keep 5xx":                   {[]policy.Option{refuse, policy.Keep("5xx")}, of(500), cache},
		"refuse beats the classifier":        {[]policy.Option{refuse, onlySuccess}, of(500), uncertain},
		"recover: 5xx":                       {[]policy.Option{recovers}, of(504), uncertain},
		"re-execute: 5xx":                    {nil, of(504), deleteKey},
		"re-execute: panic":                  {nil, panicked, deleteKey},
		"re-execute: ended context":          {nil, ended, deleteKey},
		"a status above 599 is in no list":   {[]policy.Option{policy.Keep("5xx")}, of(600), deleteKey},
	}, func(t *testing.T, c row) {
		p, err := policy.New(c.opts...)
		testkit.Must(t, err)
		testkit.Equal(t, p.Classify(c.outcome), c.want, "%+v", c.outcome)
	})
}

func TestListsThatAreWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Release=399":               `policy: Release is "399": it must be a status from 400 to 599, or the class 4xx or 5xx`,
		"Release=2xx":               `policy: Release is "2xx": it must be a status from 400 to 599`,
		"Release=":                  `policy: Release is "": it must be a status`,
		"Keep=5XX":                  `policy: Keep is "5XX": it must be a status from 200 to 599, or a class such as 5xx`,
		"Keep=5x":                   `policy: Keep is "5x"`,
		"Keep=5x3":                  `policy: Keep is "5x3"`,
		"KeyField=":                 `policy: KeyField is ""`,
		"Keep=50x":                  `policy: Keep is "50x"`,
		"Keep=50/":                  `policy: Keep is "50/"`,
		"Uncertain=600":             `policy: Uncertain is "600"`,
		"Uncertain=1xx":             `policy: Uncertain is "1xx"`,
		"Uncertain=502,,504":        `policy: Uncertain is ""`,
		"Release=400 Keep=400":      `policy: Keep is "400": it must be in one list only: Release has it too`,
		"Release=5xx Uncertain=5xx": `policy: Uncertain is "5xx": it must be in one list only: Release has it too`,
		"Keep=502 Uncertain=502":    `policy: Uncertain is "502": it must be in one list only: Keep has it too`,
	} {
		if _, err := policy.Parse(text); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	p, err := policy.Parse("Release=400,422 Keep=5xx Uncertain=502,504")
	if err != nil || fmt.Sprint(p.Release, p.Keep, p.Uncertain) != "[400 422] [5xx] [502 504]" {
		t.Errorf("got %v %v %v, %v", p.Release, p.Keep, p.Uncertain, err)
	}
}

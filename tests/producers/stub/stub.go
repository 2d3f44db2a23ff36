// What every capture in Go needs: begins and ends scenarios at the stub, and runs their tools there.
// Copied beside the program of a producer.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
}

type scenario struct {
	Name           string  `json:"name"`
	Runs           []run   `json:"runs"`
	Tools          []tool  `json:"tools"`
	ConversationID *string `json:"conversation_id"`
	Stream         bool    `json:"stream"`
	Content        bool    `json:"content"`
}

type run struct {
	Text string `json:"text"`
}

func stubURL() string {
	if url := os.Getenv("STUB"); url != "" {
		return url
	}
	return "http://127.0.0.1:21500"
}

func post(route string, body any, answer any) {
	sent, _ := json.Marshal(body)
	response, err := http.Post(stubURL()+"/stub/"+route, "application/json", bytes.NewReader(sent))
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	if answer != nil {
		if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
			panic(err)
		}
	}
}

// runTool runs a tool of the scenario.
func runTool(name string, arguments any) (any, error) {
	var answer struct {
		Result any
		Error  *struct{ Message string }
	}
	post("tools/"+name, arguments, &answer)
	if answer.Error != nil {
		return nil, errors.New(answer.Error.Message)
	}
	return answer.Result, nil
}

type begun struct {
	Producer   string            `json:"producer"`
	Scenario   string            `json:"scenario"`
	Versions   map[string]string `json:"versions"`
	Names      map[string]string `json:"names,omitempty"`
	Convention string            `json:"convention"`
}

// capture plays scenarios one after another, those of the command line or these.
func capture(about begun, scenarios []string, flush func(), play func(one scenario, text string, number int) error) {
	if len(os.Args) > 1 {
		scenarios = os.Args[1:]
	}
	for _, name := range scenarios {
		about.Scenario = name
		var one scenario
		post("begin", about, &one)
		for number, run := range one.Runs {
			post("run", nil, nil)
			time.Sleep(20 * time.Millisecond)
			if err := play(one, run.Text, number); err != nil {
				post("failed", err.Error(), nil)
				fmt.Println("FAILED", name, err)
			}
			time.Sleep(60 * time.Millisecond)
		}
		flush()
		var truth struct {
			Traces []struct {
				ID    string `json:"trace_id"`
				Calls []struct {
					Name     string
					Executed bool
				} `json:"tool_calls"`
			}
		}
		post("end", nil, &truth)
		fmt.Println(name, truth.Traces)
	}
}

// Requests to a server of Kafka's protocol through AdminClients in Go: franz-go's kadm, Sarama's ClusterAdmin, and
// Sarama as the Terraform provider Mongey/kafka calls it. Usage: admin-clients CLIENT ADDRESS LOGIN, where LOGIN is in
// JSON; each line of the input is a request, each line of the output its answer. Enumerations are numbers, as in the protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

type acl struct {
	ResourceType int8    `json:"resource_type"`
	ResourceName *string `json:"resource_name"`
	PatternType  int8    `json:"pattern_type"`
	Principal    *string `json:"principal"`
	Host         *string `json:"host"`
	Operation    int8    `json:"operation"`
	Permission   int8    `json:"permission_type"`
}

type request struct {
	Do    string   `json:"do"`
	Acl   acl      `json:"acl"` // in a filter, null is any text
	Names []string `json:"names"`
}

type answer struct {
	Acls      []acl                      `json:"acls"`
	Described map[string]json.RawMessage `json:"described"`
	Error     string                     `json:"error"`
}

type client interface {
	execute(ctx context.Context, wanted request) (answer, error)
}

func main() {
	var opened client
	var as login
	must(json.Unmarshal([]byte(os.Args[3]), &as))
	switch address := os.Args[2]; os.Args[1] {
	case "kadm":
		opened = newFranz(address, as)
	case "sarama":
		opened = newSarama(address, as)
	case "provider":
		opened = newProvider(address, as)
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var wanted request
		must(json.Unmarshal(input.Bytes(), &wanted))
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		found, err := opened.execute(ctx, wanted)
		cancel()
		if err != nil {
			found.Error = err.Error()
		}
		line, err := json.Marshal(found)
		must(err)
		fmt.Println(string(line))
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func described(value any) json.RawMessage {
	text, err := json.Marshal(value)
	must(err)
	return text
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

#include "serve/api.h"

namespace lathe::serve {

const char* const kOpenApiDocument = R"json({
 "openapi": "3.1.0",
 "info": {
  "title": "Lathe",
  "version": "1",
  "description": "Verdicts on candidate kernels: correct or not, how fast, and why. docs/service.md has the semantics."
 },
 "security": [{"token": []}],
 "paths": {
  "/v1/evaluations": {
   "post": {
    "operationId": "submit",
    "summary": "Submit one candidate. Durable once answered; the same request again is the same evaluation.",
    "parameters": [
     {
      "name": "wait",
      "in": "query",
      "description": "Seconds to wait for an answer.",
      "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
     }
    ],
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Submission"}}}
    },
    "responses": {
     "200": {
      "description": "Its verdict.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "202": {
      "description": "It is on its way.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "400": {
      "description": "The request is wrong; the message says where.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "403": {
      "description": "The token's role does not suffice.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "413": {
      "description": "The body is too large.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "415": {
      "description": "The body is not JSON.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "429": {
      "description": "The queue, or the client's share of it, is full; Retry-After says when to try again.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "503": {
      "description": "The service cannot store anything now.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   },
   "get": {
    "operationId": "listFinished",
    "summary": "The client's finished requests in order of completion.",
    "parameters": [
     {
      "name": "after",
      "in": "query",
      "description": "A sequence number that this client has seen.",
      "schema": {"type": "integer", "minimum": 0, "default": 0}
     },
     {
      "name": "limit",
      "in": "query",
      "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
     },
     {
      "name": "wait",
      "in": "query",
      "description": "Seconds to wait for an answer.",
      "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
     }
    ],
    "responses": {
     "200": {
      "description": "Those that finished later.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluations"}}}
     },
     "400": {
      "description": "The request is wrong; the message says where.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "503": {
      "description": "The service cannot store anything now.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/v1/evaluations/batch": {
   "post": {
    "operationId": "submitBatch",
    "summary": "Submit up to 1024 candidates. What is wrong with one does not keep the others.",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Batch"}}}
    },
    "responses": {
     "202": {
      "description": "What became of each, in order.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Receipts"}}}
     },
     "429": {
      "description": "The queue took none; what became of each.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Receipts"}}}
     },
     "400": {
      "description": "The request is wrong; the message says where.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "403": {
      "description": "The token's role does not suffice.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "413": {
      "description": "The body is too large.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "415": {
      "description": "The body is not JSON.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "503": {
      "description": "The service cannot store anything now.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/v1/evaluations/{id}": {
   "get": {
    "operationId": "show",
    "summary": "State and verdict of a request of this client.",
    "parameters": [
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "wait",
      "in": "query",
      "description": "Seconds to wait for an answer.",
      "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
     }
    ],
    "responses": {
     "200": {
      "description": "It is final.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "202": {
      "description": "It is not final yet.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "400": {
      "description": "The request is wrong; the message says where.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "404": {
      "description": "There is no such evaluation of this client.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "503": {
      "description": "The service cannot store anything now.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   },
   "delete": {
    "operationId": "cancel",
    "summary": "Cancel this client's request; work that nobody else wants stops.",
    "parameters": [
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     }
    ],
    "responses": {
     "200": {
      "description": "How it ended.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "403": {
      "description": "The token's role does not suffice.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "404": {
      "description": "There is no such evaluation of this client.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "503": {
      "description": "The service cannot store anything now.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/v1/evaluations/{id}/evidence": {
   "get": {
    "operationId": "evidence",
    "summary": "The whole verdict, and what the author of a kernel should know of it.",
    "parameters": [
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     }
    ],
    "responses": {
     "200": {
      "description": "The evidence.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evidence"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "404": {
      "description": "There is no such evaluation of this client.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "503": {
      "description": "The service cannot store anything now.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/v1/events": {
   "get": {
    "operationId": "events",
    "summary": "Server-sent events, one for each of the client's requests that finishes, in order of completion. Last-Event-ID resumes.",
    "parameters": [
     {
      "name": "after",
      "in": "query",
      "description": "A sequence number that this client has seen.",
      "schema": {"type": "integer", "minimum": 0, "default": 0}
     }
    ],
    "responses": {
     "200": {
      "description": "Events of type evaluation; data is an Evaluation, id its sequence.",
      "content": {"text/event-stream": {"schema": {"type": "string"}}}
     },
     "400": {
      "description": "The request is wrong; the message says where.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/v1/tasks": {
   "get": {
    "operationId": "listTasks",
    "summary": "The tasks that are known by name.",
    "responses": {
     "200": {
      "description": "Names and digests.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tasks"}}}
     },
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/metrics": {
   "get": {
    "operationId": "metrics",
    "summary": "Metrics in Prometheus' text format.",
    "responses": {
     "200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}},
     "401": {
      "description": "No valid token.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "503": {
      "description": "The service cannot store anything now.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/healthz": {
   "get": {
    "operationId": "alive",
    "summary": "Whether the process answers.",
    "security": [],
    "responses": {
     "200": {
      "description": "It does.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
     }
    }
   }
  },
  "/readyz": {
   "get": {
    "operationId": "ready",
    "summary": "Whether a worker is there and the store takes writes.",
    "security": [],
    "responses": {
     "200": {
      "description": "Yes.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
     },
     "503": {
      "description": "No.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
     }
    }
   }
  },
  "/openapi.json": {
   "get": {
    "operationId": "document",
    "summary": "This document.",
    "security": [],
    "responses": {
     "200": {
      "description": "The document.",
      "content": {"application/json": {"schema": {"type": "object"}}}
     }
    }
   }
  }
 },
 "components": {
  "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
  "schemas": {
   "Submission": {
    "type": "object",
    "additionalProperties": false,
    "required": ["task", "candidate"],
    "properties": {
     "task": {
      "description": "A name or a digest; or one of both, or the task's TOML text, by field.",
      "oneOf": [
       {"type": "string"},
       {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
        "properties": {
         "name": {"type": "string"},
         "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
         "toml": {"type": "string", "maxLength": 262144}
        }
       }
      ]
     },
     "candidate": {
      "type": "string",
      "maxLength": 1048576,
      "description": "The kernel's text, front matter included."
     },
     "depth": {"enum": ["build", "verify", "screen", "final", "profile"], "default": "screen"},
     "priority": {
      "type": "integer",
      "minimum": -100,
      "maximum": 100,
      "default": 0,
      "description": "Higher first, among the client's own."
     },
     "deadline_seconds": {
      "type": "number",
      "minimum": 0,
      "maximum": 2592000,
      "default": 0,
      "description": "From now on; 0 is none."
     },
     "tag": {
      "type": "string",
      "maxLength": 256,
      "default": "",
      "description": "Given back with the answer."
     }
    }
   },
   "Batch": {
    "type": "object",
    "additionalProperties": false,
    "required": ["items"],
    "properties": {
     "items": {
      "type": "array",
      "minItems": 1,
      "maxItems": 1024,
      "items": {"$ref": "#/components/schemas/Submission"}
     }
    }
   },
   "Evaluation": {
    "type": "object",
    "required": [
     "id",
     "state",
     "tag",
     "priority",
     "task",
     "candidate",
     "depth",
     "device_kind",
     "gym_version",
     "submitted_unix_ms"
    ],
    "properties": {
     "id": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "state": {"enum": ["queued", "running", "done", "failed", "cancelled", "expired"]},
     "tag": {"type": "string"},
     "priority": {"type": "integer"},
     "task": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "candidate": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "depth": {"enum": ["build", "verify", "screen", "final", "profile"]},
     "device_kind": {"type": "string"},
     "gym_version": {"type": "string"},
     "submitted_unix_ms": {"type": "integer"},
     "finished_unix_ms": {"type": "integer"},
     "sequence": {"type": "integer"},
     "verdict": {"$ref": "#/components/schemas/Verdict"},
     "error": {"type": "string"}
    }
   },
   "Verdict": {
    "type": "object",
    "required": ["outcome", "reason", "detail", "speedups"],
    "properties": {
     "outcome": {"enum": ["PASS", "BUILD_FAILED", "WRONG", "CRASH", "TIMEOUT", "TAMPERED", "SUSPECT", "INFRA"]},
     "reason": {"type": "string"},
     "detail": {"type": "string"},
     "median_ns": {"type": "number"},
     "speedups": {
      "type": "object",
      "description": "By baseline.",
      "additionalProperties": {"$ref": "#/components/schemas/Interval"}
     }
    }
   },
   "Interval": {
    "type": "object",
    "required": ["low", "mid", "high"],
    "properties": {"low": {"type": "number"}, "mid": {"type": "number"}, "high": {"type": "number"}}
   },
   "Evaluations": {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Evaluation"}}}
   },
   "Receipts": {
    "type": "object",
    "required": ["items"],
    "properties": {
     "items": {
      "type": "array",
      "items": {
       "oneOf": [
        {
         "type": "object",
         "required": ["id", "state"],
         "properties": {
          "id": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
          "state": {"enum": ["queued", "done"]}
         }
        },
        {"$ref": "#/components/schemas/Fault"}
       ]
      }
     }
    }
   },
   "Evidence": {
    "type": "object",
    "required": ["id", "state"],
    "properties": {
     "id": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "state": {"type": "string"},
     "verdict": {"type": "object", "description": "docs/json.md"},
     "feedback": {"type": "string"}
    }
   },
   "Tasks": {
    "type": "object",
    "required": ["items"],
    "properties": {
     "items": {
      "type": "array",
      "items": {
       "type": "object",
       "required": ["name", "digest"],
       "properties": {"name": {"type": "string"}, "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
      }
     }
    }
   },
   "Status": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}},
   "Fault": {
    "type": "object",
    "required": ["error"],
    "properties": {
     "error": {
      "type": "object",
      "required": ["code", "message"],
      "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "request_id": {"type": "string"}}
     }
    }
   }
  }
 }
}
)json";

}  // namespace lathe::serve

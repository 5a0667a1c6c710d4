FROM python:3.13-slim

# Commands of steps run in bubblewrap.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 10001 threadwork \
    && install -d -o threadwork -g threadwork /var/lib/threadwork

WORKDIR /app
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY manage.py pyproject.toml ./
COPY project ./project
COPY threads ./threads
COPY workflows ./workflows

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=project.settings \
    THREADWORK_DATA=/var/lib/threadwork

USER threadwork
EXPOSE 8000
CMD ["python", "-m", "uvicorn", "project.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--lifespan", "off", "--no-access-log"]
